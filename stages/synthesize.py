"""Make synthetic texts of a task: `python -m stages.synthesize movies generator 3 minilm`."""

from itertools import chain

import pyarrow as pa

from rapt import models, params, paths
from rapt.grid import released
from rapt.privacy.released import strings
from rapt.synthesis.base import Draw, PrivateTexts, synthesize
from rapt.synthesis.judged import judge
from rapt.synthesis.membership import Canaries, told
from rapt.synthesis.statement import statement
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import run


def main(task: str, synthesizer: str, epsilon: str, embedding: str) -> None:
    """Write a copy for each seed, and how near its texts come to the private ones."""
    p = params.load()
    how, of_task, name = p.synthesizers[synthesizer], p.tasks[task], released(synthesizer, epsilon)
    raw = files.read_parquet(paths.raw(task) / "train.parquet")
    tagged = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    assert of_task.names  # as params.yaml was checked
    private = PrivateTexts(raw["text"].to_pylist(), raw["label"].to_numpy(), of_task.names)
    folder_of_model, tagger = models.folder(how.model, how.sha256), Tagger(p.tagger, tags=False)
    made, judged = [], []
    with files.atomic(paths.release(task, name)) as folder:
        for k in range(p.seeds):
            draw = Draw(float(epsilon), folder_of_model, p.seed, (k, task, synthesizer, epsilon))
            canaries = Canaries.draw(len(raw), how.canaries, draw.stream("canaries"))
            kept = canaries.kept(len(raw))
            made.append(synthesize(how, private.of(kept), draw))
            labels = [label for label, own in enumerate(made[k].texts) for _ in own]
            words = [text.words for text in tagger.texts(chain(*made[k].texts))]
            if len({*labels}) < 2:
                raise RaptError(
                    f"synthesizers.{synthesizer}: got texts of fewer than two classes, expected "
                    "more. Raise texts, or take another model or prompt."
                )
            files.write_parquet(paths.seed(folder, k) / "train.parquet", rows(words, labels))
            files.write_parquet(
                paths.seed(folder, k) / "test.parquet",
                tagged["test"].select(["example_id", "segment", "words", "label"]),
            )
            train, test = (tagged[split]["words"].to_pylist() for split in ("train", "test"))
            figures = told(words, train, test, canaries, how.delta, paths.MINILM)
            near = judge(words, [train[row] for row in kept], test, paths.MINILM)
            judged.append({"epsilon": float(epsilon), **near, **figures})
        facts = {"task": task, "method": synthesizer, "embedding": embedding, **of_task.facts()}
        table = EmbeddingTable(paths.table(embedding))
        files.write_json(paths.statement(folder), statement(how, epsilon, made, table, facts))
    files.write_json(paths.judged(task, name), {"seeds": judged})
    for copy in made:
        if copy.checkpoint:
            copy.checkpoint.unlink(missing_ok=True)


def rows(words: list[list[str]], labels: list[int]) -> pa.Table:
    """Return the training split of a synthetic release."""
    return pa.table(
        {
            "example_id": [f"synthetic-{number:06d}" for number in range(len(words))],
            "segment": pa.array([[0] * len(text) for text in words], pa.list_(pa.int8())),
            "words": strings(words),
            "label": pa.array(labels, pa.int64()),
        }
    )


if __name__ == "__main__":
    run(main)
