"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt import params, paths
from rapt.attacks.base import Inference, Release
from rapt.attacks.scores import Scores, attribute_scores, intervals, majority, successes
from rapt.grid import released
from rapt.privacy import seeded
from rapt.privacy.privatizer import Privatizer
from rapt.results import cells, predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Attack the test split of TASK with what the attacker's own texts, the train split, teach."""
    p = params.load()
    name = released(method, eta)
    release = paths.release(task, name)
    statement = files.read_json(release / "statement.json")
    embedding = statement["embedding"]
    factors = {"attack": attack, "task": task, "method": method, "eta": eta, "embedding": embedding}
    cell = cells.Cell("infer", f"{attack}-{task}-{name}", factors)
    table = EmbeddingTable(paths.table(embedding))
    tagged = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    truth = {name: _values(tagged, name) for name in p.tasks[task].attributes or {}}
    columns = tagged["test"].column_names
    authors = tagged["test"]["author"].to_numpy() if "author" in columns else None
    for name, values in truth.items():
        if len(set(values["train"])) < 2:
            where = f"tasks.{task}.attributes.{name}"
            raise RaptError(f"{where}: got one value in the training split, expected two at least.")
    how = p.attacks[attack]
    assert isinstance(how, Inference)

    @cache
    def privatizer() -> Privatizer:
        return seeded.privatizer_of(statement, eta)

    def anew(seed: int, number: int) -> Release:
        names = ("attacker", number)
        return Release.of(seeded.release(privatizer(), tagged["train"], *names, seed=seed))

    scores = [
        _attack(how, release / f"seed-{k}", table, truth, authors, anew, p.seed + k)
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    # What varies is the author, where authors are known, as in the intervals.
    units = tagged["test"]["example_id"].to_pylist()
    if authors is not None:
        units = [f"author-{author}" for author in range(authors.max() + 1)]
    predictions.write(paths.predictions("infer", cell.name), successes(scores, units))
    cell.write(
        protection=statement["protection"],
        seeds=[cells.SeedResult(seed=k, metrics=found.metrics()) for k, found in enumerate(scores)],
        intervals=intervals(scores),
        baselines={f"majority_{name}": majority(values["test"]) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


def _values(tagged: dict[str, pa.Table], name: str) -> dict[str, list[str]]:
    return {split: rows[f"attribute_{name}"].to_pylist() for split, rows in tagged.items()}


def _attack(
    how: Inference,
    copy: Path,
    table: EmbeddingTable,
    truth: dict[str, dict[str, list[str]]],
    authors: NDArray[np.int64] | None,
    anew: Callable[[int, int], Release],
    seed: int,
) -> Scores:
    """Attack one seed's copy."""
    own, victims = (Release.read(copy / f"{split}.parquet") for split in ("train", "test"))
    known = {name: values["train"] for name, values in truth.items()}
    guesses = how.guesses(table, replace(own, anew=anew), known, victims, seed)
    return attribute_scores({name: of["test"] for name, of in truth.items()}, guesses, authors)


if __name__ == "__main__":
    run(main)
