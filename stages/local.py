"""Classify raw text on the user's own machine: `python -m stages.local movies`."""

from rapt import params, paths
from rapt.analysis.intervals import of_accuracy
from rapt.baselines import local
from rapt.data.triples import words_alone
from rapt.grid import LOCAL, NOTHING_SENT_ETA
from rapt.results import cells, predictions
from rapt.results.predictions import Predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import run


def main(task: str) -> None:
    """Fit every local model on TASK's training rows, and score its test rows."""
    p = params.load()
    if p.tasks[task].references:
        copy(p, task)
        return
    nothing_sent = {"method": LOCAL, "eta": NOTHING_SENT_ETA}
    cell = cells.Cell(LOCAL, task, {"task": task, **nothing_sent, "embedding": p.embedding})
    rows = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    texts = {split: local.texts(of) for split, of in rows.items()}
    table = EmbeddingTable(paths.table(p.embedding))
    label = p.tasks[task].label
    assert label  # as params.yaml was checked
    classes = rows["train"]["label"].to_pylist()
    models = local.fit(task, texts["train"], classes, len(label.names), table)
    predicted = {m.name: Predictions.of(rows["test"], [m.logits(texts["test"])]) for m in models}
    best = predicted[models[0].name]
    held_out = Predictions.of(rows["train"], [models[0].held_out])
    predictions.write(paths.predictions(LOCAL, task), {"train": held_out, "test": best})
    named = {"accuracy": best} | {f"accuracy_{name}": one for name, one in predicted.items()}
    metrics = {name: float(one.right.mean()) for name, one in named.items()}
    metrics |= {f"log_loss_{model.name}": model.log_loss for model in models}
    cell.write(
        protection="nothing sent",
        seeds=[cells.SeedResult(seed=0, metrics=metrics)],
        intervals={name: of_accuracy(one.right) for name, one in named.items()},
        counts={split: len(of) for split, of in rows.items()},
        baselines={"majority": best.majority},
    )


def copy(p: params.Params, task: str) -> None:
    """Score who sends nothing and hands over the source itself, without what parts its triples."""
    from rapt.analysis import written

    nothing_sent = {"method": LOCAL, "eta": NOTHING_SENT_ETA}
    cell = cells.Cell(LOCAL, task, {"task": task, **nothing_sent, "embedding": p.embedding})
    raw = files.read_parquet(paths.raw(task) / "test.parquet")
    texts = [words_alone(source) for source in raw["text"].to_pylist()]
    references, groups = (raw[name].to_pylist() for name in ("references", "group"))
    metrics = written.by_group(texts, references, groups)
    metrics["bleu_human"] = written.one_against_the_others(references)
    predictions.write_texts(paths.predictions(LOCAL, task), raw, [texts])
    cell.write(
        protection="nothing sent",
        seeds=[cells.SeedResult(seed=0, metrics=metrics)],
        intervals={"bleu": written.interval([texts], references)},
        counts={"test": len(raw)},
        baselines={},
    )


if __name__ == "__main__":
    run(main)
