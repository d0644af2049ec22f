"""Score what a tuned model wrote: `python -m stages.score CELL webnlg smollm2 lora t2t 75`."""

from rapt import params, paths
from rapt.analysis import written
from rapt.data.triples import entities
from rapt.grid import is_unprotected, released
from rapt.privacy.restoring import maps
from rapt.results import cells, predictions
from rapt.utils import files
from stages import run


def main(cell: str, task: str, backbone: str, tuner: str, method: str, eta: str) -> None:
    """Put back the entities of every text of CELL, and score it against the test references."""
    p = params.load()
    restores = p.tasks[task].protect == "entities" and not is_unprotected(eta)
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    release = paths.release(task, released(method, eta))
    statement = files.read_json(paths.statement(release))
    result = cells.Cell("score", cell, factors | {"embedding": statement["embedding"]})
    raw = files.read_parquet(paths.raw(task) / "test.parquet")
    tagged = files.read_parquet(paths.tagged(task) / "test.parquet")
    references, groups = (raw[name].to_pylist() for name in ("references", "group"))
    wanted = [entities(text) for text in raw["text"].to_pylist()]
    restored, seeds = [], []
    for k, texts in enumerate(predictions.read_texts(paths.predictions("train", cell))):
        collisions = {}
        if restores:
            of = maps(tagged, files.read_parquet(paths.seed(release, k) / "test.parquet"))
            texts = [own.restore(text) for own, text in zip(of, texts, strict=True)]
            collisions = {"collisions": sum(own.collisions for own in of) / len(of)}
        metrics = written.by_group(texts, references, groups) | collisions
        if any(wanted):
            metrics["entity_recall"] = written.recall(texts, wanted)
        restored.append(texts)
        seeds.append(cells.SeedResult(seed=k, metrics=metrics))
    predictions.write_texts(paths.predictions("score", cell), raw, restored)
    result.write(
        protection=statement["protection"],
        seeds=seeds,
        intervals={"bleu": written.interval(restored, references)},
        counts={"test": len(raw)},
        baselines={},
    )


if __name__ == "__main__":
    run(main)
