"""Attack words that stand in a source and its text: `python -m evidence.two_views t2t 75`.

In a project with evidence/texts/params.yaml and 600 training sources, after `dvc repro tag tables
channel`. An entity stands in a source of triples and in the text that was written of it. Where each
word has noise of its own, an attacker who finds both sees two draws; where they share their noise,
he sees one. The attacker here is the Bayesian one, who is told which words belong together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import typer

from rapt import params, paths
from rapt.analysis.intervals import interval
from rapt.attacks.base import Public, Release
from rapt.attacks.bayesian import likeliest, posterior
from rapt.grid import released
from rapt.measures.originals import Originals
from rapt.param_types import Protect
from rapt.privacy import seeded
from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import Channel
from rapt.privacy.privatizer import Privatizer

TASK, SPLIT = "webnlg", "train"
OUT = Path(__file__).with_name("two_views.json")


def pairs(originals: Originals, seed: int) -> Iterator[list[tuple[str, str, str]]]:
    """Yield for each row the words that stand in source and text, with what each place released."""
    tagged, table = originals.tagged[SPLIT], originals.privatizer.table
    texts = seeded.release(originals.privatizer, tagged, "two-views", seed=seed)
    rows = zip(tagged["segment"].to_pylist(), originals.texts[SPLIT], texts, strict=True)
    for segments, before, after in rows:
        first: dict[tuple[str, int], int] = {}
        found: dict[tuple[str, int], tuple[str, str, str]] = {}
        for at, (word, group) in enumerate(zip(before.words, before.groups, strict=True)):
            key = table.form(word), group
            if group == VERBATIM:
                continue
            if segments[at] == 0:
                first.setdefault(key, at)
            elif key in first:
                found.setdefault(key, (key[0], after.words[first[key]], after.words[at]))
        yield list(found.values())


def read(privatizer: Privatizer, channel: Channel, rows: list[list[tuple[str, str, str]]]) -> Any:
    """Return the share of words that is read from the source, and from both, with intervals."""
    public = Public.of(privatizer, channel)
    truth, source, text = (
        Release([[word[side] for word in row] for row in rows]) for side in range(3)
    )
    found: dict[str, Any] = {"rows": len(rows), "words": sum(map(len, rows))}
    found["one draw"] = float(np.mean([one == two for row in rows for _, one, two in row]))
    for name, views in (("source", [source]), ("both", [source, text])):
        guessed = likeliest(posterior(public, "release", views), privatizer.table, views)
        right = np.array(
            [sum(map(str.__eq__, *each)) for each in zip(guessed, truth.words, strict=True)]
        )
        counted = np.array([len(row) for row in rows])
        share = right.sum() / counted.sum()
        low, high = interval(right, counted, np.array([share]))
        found[name] = {"mean": float(share), "low": low, "high": high}
    return found


def main(method: str, eta: str) -> None:
    """Write evidence/two_views.json for a method at one η."""
    p = params.load()
    how = p.method(method)
    privatizer = seeded.privatizer(p.embedding, how.mechanism, how.categories, eta)
    channel = Channel.load(
        paths.channel(p.embedding, released(method, eta)), len(privatizer.table.words)
    )
    found = {}
    for protect in get_args(Protect):
        originals = Originals(privatizer, TASK, p.seed, protect)
        found[protect] = read(privatizer, channel, list(pairs(originals, p.seed)))
    OUT.write_text(json.dumps({"method": method, "eta": eta} | found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
