"""`rapt privatize` with its ledger and its checks, against the same command without them.

The text is tagged without parts of speech, where all else is fastest and rails weigh most. Times
are the processor's, as the difference is smaller than what other work on the machine adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from unittest.mock import patch

from benchmarks.edge import TAGGER
from benchmarks.measure import Figure, figure, interleaved, ratio
from benchmarks.tables import SIZE, eta_at, text, write_table
from rapt.measures import strength
from rapt.release.command import prepared
from rapt.release.ledger import Account
from rapt.release.text import TextPrivatizer
from rapt.text import language

WORDS, ROUNDS = 30_000, 3


def run(tables: Path) -> list[Figure]:
    table = write_table(tables / f"{SIZE}x384", SIZE, 384)
    with TemporaryDirectory() as name, patch.dict("os.environ", XDG_DATA_HOME=name):
        folder = Path(name)
        words, lines = text(WORDS, SIZE), folder / "words.txt"
        lines.write_text("".join(f"{' '.join(words[i : i + 20])}\n" for i in range(0, WORDS, 20)))
        once = partial(_privatize, lines, table, count())
        taken = interleaved(
            {"with": once, "without": partial(_without_rails, once)}, ROUNDS, process_time
        )
    rate = WORDS / min(taken["with"])
    share = ratio(taken["without"], taken["with"])
    return [
        figure("rapt privatize, T2T with ledger and checks", rate, "words/CPU s"),
        figure("words/s with ledger and checks / without", share, "times", least=0.95),
    ]


def _privatize(path: Path, table: Path, numbers: Iterator[int]) -> None:
    """One release, as `rapt privatize` makes it after its start."""
    none = ("format", "column", "keep", "keep_map", "seed", "categories", "parameter", "detector")
    options: dict[str, Any] = dict.fromkeys(none)
    job, privatizer = prepared(
        path,
        path.with_name(f"released-{next(numbers)}.txt"),
        keep_all=True,
        overwrite=False,
        table=table,
        tagger=TAGGER,
        eta=eta_at(384),
        **options,
    )
    job.run(privatizer)


def _without_rails(once: Callable[[], None]) -> None:
    with (
        patch.object(TextPrivatizer, "account", lambda *_, **__: Account(None)),
        patch.object(strength, "check", lambda *_: None),
        patch.object(language, "check", lambda *_: None),
    ):
        once()
