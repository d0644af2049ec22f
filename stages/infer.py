"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

import pyarrow as pa

from rapt import cells, files, params
from rapt.attacks.attribute import AttributeMlp, majority, mean_vectors
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
    attacker = AttributeMlp(**p.attacks[attack].model_dump(exclude={"type"}))
    seeds = [
        {
            "seed": k,
            "metrics": _attack(attacker, f"{release}/seed-{k}", table, truth, p.seed + k),
            "curves": {},
        }
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    cell.write(
        protection=statement["protection"],
        seeds=seeds,
        floors={f"majority_{name}": majority(values["test"]) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


def _values(tagged: dict[str, pa.Table], name: str) -> dict[str, list[str]]:
    return {split: rows[f"attribute_{name}"].to_pylist() for split, rows in tagged.items()}


def _attack(
    attacker: AttributeMlp,
    copy: str,
    table: EmbeddingTable,
    truth: dict[str, dict[str, list[str]]],
    seed: int,
) -> dict[str, float]:
    """Accuracy and empirical privacy for each attribute, on one seed's copy of the release."""
    features = {
        split: mean_vectors(
            table, files.read_parquet(f"{copy}/{split}.parquet")["words"].to_pylist()
        )
        for split in ("train", "test")
    }
    metrics: dict[str, float] = {}
    for name, values in truth.items():
        own, victims = ((features[split], values[split]) for split in ("train", "test"))
        accuracy = attacker.accuracy(own, victims, seed)
        metrics |= {f"accuracy_{name}": accuracy, f"empirical_privacy_{name}": 1 - accuracy}
    return metrics


if __name__ == "__main__":
    run(main)
