"""Score a provider with public labels on every release: `python -m stages.public_labels movies`."""

from rapt import grid, params, paths
from rapt.analysis.intervals import of_accuracy
from rapt.baselines import local
from rapt.results import cells, predictions
from rapt.results.predictions import Predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import run


def main(task: str) -> None:
    """Fit a model to clean public text, and let it answer the texts of TASK as they are released.

    The model is the best of the local ones in cross-validation on the public training rows.
    """
    p = params.load()
    public = p.public_labels[task]
    names, others = p.tasks[task].names, p.tasks[public].names
    assert names and others  # as params.yaml was checked
    known = files.read_parquet(paths.tagged(public) / "train.parquet")
    table, labels = EmbeddingTable(paths.table(p.embedding)), known["label"].to_pylist()
    model = local.fit(public, local.texts(known), labels, len(others), table)[0]
    places = [others.index(name) for name in names]  # both may number their classes differently
    for planned in (each for each in grid.public_labels(p) if each.key == task):
        cell = cells.Cell(planned.kind, planned.cell, planned.factors)
        release = paths.PRIVATE / planned.cell  # TASK/RELEASE
        answers = {}
        for split in ("train", "test"):
            copies = [
                files.read_parquet(paths.seed(release, k) / f"{split}.parquet")
                for k in range(p.seeds)
            ]
            logits = [model.logits(local.texts(rows))[:, places] for rows in copies]
            answers[split] = Predictions.of(copies[0], logits)
        predictions.write(planned.predictions, answers)
        test = answers["test"]
        cell.write(
            protection=files.read_json(paths.statement(release))["protection"],
            seeds=[
                cells.SeedResult(seed=k, metrics={"accuracy": accuracy})
                for k, accuracy in enumerate(test.accuracies)
            ],
            intervals={"accuracy": of_accuracy(test.right)},
            counts={"train": len(known), "test": len(test.examples)},
            baselines={"majority": test.majority},
        )


if __name__ == "__main__":
    run(main)
