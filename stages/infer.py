"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt import cells, files, params
from rapt.attacks.attribute import majority
from rapt.attacks.base import Inference, Known, Release
from rapt.attacks.interval import interval
from rapt.progress import bar
from rapt.text.table import EmbeddingTable
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Attack the test split of TASK with what the attacker's own texts, the train split, teach."""
    p = params.load()
    release = f"data/private/{task}/{method}-{eta}"
    statement = files.read_json(f"{release}/statement.json")
    embedding = statement["embedding"]
    factors = {"attack": attack, "task": task, "method": method, "eta": eta, "embedding": embedding}
    cell = cells.Cell("infer", f"{attack}-{task}-{method}-{eta}", factors)
    table = EmbeddingTable(f"models/tables/{embedding}")
    tagged = {s: files.read_parquet(f"data/tagged/{task}/{s}.parquet") for s in ("train", "test")}
    truth = {name: _values(tagged, name) for name in p.tasks[task].attributes or {}}
    how = p.attacks[attack]
    assert isinstance(how, Inference)
    right = [
        _attack(how, f"{release}/seed-{k}", table, truth, p.seed + k)
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    cell.write(
        protection=statement["protection"],
        seeds=[
            {"seed": k, "metrics": _metrics(found), "curves": {}} for k, found in enumerate(right)
        ],
        intervals=_intervals(right),
        floors={f"majority_{name}": majority(values["test"]) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


def _values(tagged: dict[str, pa.Table], name: str) -> dict[str, list[str]]:
    return {split: rows[f"attribute_{name}"].to_pylist() for split, rows in tagged.items()}


def _attack(
    attacker: Inference,
    copy: str,
    table: EmbeddingTable,
    truth: dict[str, dict[str, list[str]]],
    seed: int,
) -> dict[str, NDArray[np.bool_]]:
    """For each attribute whether it was guessed, text by text, on one seed's copy."""
    own, victims = (Release.read(f"{copy}/{split}.parquet") for split in ("train", "test"))
    return {
        name: np.array(attacker.guesses(table, Known(own, values["train"]), victims, seed))
        == np.array(values["test"])
        for name, values in truth.items()
    }


def _metrics(right: dict[str, NDArray[np.bool_]]) -> dict[str, float]:
    """Accuracy and empirical privacy for each attribute."""
    return {
        metric: value
        for name, found in right.items()
        for metric, value in (
            (f"accuracy_{name}", float(found.mean())),
            (f"empirical_privacy_{name}", 1 - float(found.mean())),
        )
    }


def _intervals(seeds: Sequence[dict[str, NDArray[np.bool_]]]) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in seeds[0]:
        right = np.array([seed[name] for seed in seeds], np.int64)
        low, high = interval(right.sum(0), np.full(right.shape[1], len(right)), right.mean(1))
        found |= {f"accuracy_{name}": (low, high), f"empirical_privacy_{name}": (1 - high, 1 - low)}
    return found


if __name__ == "__main__":
    run(main)
