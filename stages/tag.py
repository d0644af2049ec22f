"""Split a task's texts into tagged words: `python -m stages.tag movies`."""

from functools import reduce
from itertools import chain, islice

import pyarrow as pa

from rapt import params, paths
from rapt.data.examples import segments
from rapt.tasks.base import Task
from rapt.text import language, mentions
from rapt.text.tagged import NOTHING, Tagged
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.progress import bar
from stages import run


def main(task: str) -> None:
    """Tag both splits of TASK."""
    p = params.load()
    of_task = p.tasks[task]
    tagger = Tagger(p.tagger)
    with files.atomic(paths.tagged(task)) as folder:
        for split in ("train", "test"):
            raw = files.read_parquet(paths.raw(task) / f"{split}.parquet")
            language.check(raw["text"].to_pylist(), language.of_tagger(p.tagger), p.language)
            files.write_parquet(
                folder / f"{split}.parquet", _tagged(raw, tagger, f"{task} {split}", of_task)
            )


def _tagged(raw: pa.Table, tagger: Tagger, name: str, task: Task) -> pa.Table:
    """The columns of `raw` with words in the place of texts; segments follow one another."""
    parts = list(segments(raw))
    tagged = tagger.texts(chain.from_iterable(parts), split="entities" in raw.column_names)
    texts = [list(islice(tagged, len(each))) for each in bar(parts, name, len(raw))]
    joined = [reduce(Tagged.then, each) for each in texts]
    places = [[at for at, part in enumerate(each) for _ in part.words] for each in texts]
    columns = {
        "example_id": raw["example_id"],
        "words": pa.array([text.words for text in joined], pa.list_(pa.string())),
        "pos": pa.array([text.pos for text in joined], pa.list_(pa.string())),
        "space_after": pa.array([text.space_after for text in joined], pa.list_(pa.bool_())),
        "identifier": pa.array([text.identifiers for text in joined], pa.list_(pa.string())),
        "segment": pa.array(places, pa.list_(pa.int8())),
    }
    if task.shared_noise:
        share = mentions.PROTECTED[task.shared_noise]
        shared = [share(source, reduce(Tagged.then, text, NOTHING)) for source, *text in texts]
        columns["noise"] = pa.array([each.noise for each in shared], pa.list_(pa.int32()))
        columns["mentions"] = pa.array([each.mentions for each in shared], pa.list_(pa.string()))
    whole = ("label", *task.targets, "author", "entities")
    kept = [name for name in raw.column_names if name in whole or name.startswith("attribute_")]
    return pa.table(columns | {name: raw[name] for name in kept})


if __name__ == "__main__":
    run(main)
