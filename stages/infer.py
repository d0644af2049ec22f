"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt import params, paths
from rapt.analysis.intervals import interval
from rapt.attacks.base import Inference, Release, majority
from rapt.grid import released
from rapt.results import cells
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar
from stages import run

Right = dict[str, NDArray[np.bool_]]
Authors = NDArray[np.int64] | None


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
    right = [
        _attack(how, release / f"seed-{k}", table, truth, p.seed + k)
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    cell.write(
        protection=statement["protection"],
        seeds=[
            {"seed": k, "metrics": _metrics(found), "curves": {}} for k, found in enumerate(right)
        ],
        intervals=_intervals(right, authors),
        floors={f"majority_{name}": majority(values["test"]) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


def _values(tagged: dict[str, pa.Table], name: str) -> dict[str, list[str]]:
    return {split: rows[f"attribute_{name}"].to_pylist() for split, rows in tagged.items()}


def _attack(
    how: Inference,
    copy: Path,
    table: EmbeddingTable,
    truth: dict[str, dict[str, list[str]]],
    seed: int,
) -> Right:
    """For each attribute whether it was guessed, text by text, on one seed's copy."""
    own, victims = (Release.read(copy / f"{split}.parquet") for split in ("train", "test"))
    known = {name: values["train"] for name, values in truth.items()}
    guesses = how.guesses(table, own, known, victims, seed)
    return {name: np.array(guesses[name]) == np.array(of["test"]) for name, of in truth.items()}


def _metrics(right: Right) -> dict[str, float]:
    """Accuracy and empirical privacy for each attribute."""
    return {
        metric: value
        for name, found in right.items()
        for metric, value in (
            (f"accuracy_{name}", float(found.mean())),
            (f"empirical_privacy_{name}", 1 - float(found.mean())),
        )
    }


def _intervals(seeds: Sequence[Right], authors: Authors) -> dict[str, tuple[float, float]]:
    """Where authors are known, what varies is the author: the texts of one belong together."""
    found: dict[str, tuple[float, float]] = {}
    for name in seeds[0]:
        right = np.array([seed[name] for seed in seeds], np.int64)
        of = np.arange(right.shape[1]) if authors is None else authors
        each = np.bincount(of, right.sum(0)).astype(np.int64)
        low, high = interval(each, len(right) * np.bincount(of), right.mean(1))
        found |= {f"accuracy_{name}": (low, high), f"empirical_privacy_{name}": (1 - high, 1 - low)}
    return found


if __name__ == "__main__":
    run(main)
