"""The tagged text that a release was made from, and the words that its mechanism makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from rapt import paths
from rapt.param_types import Protect
from rapt.privacy import seeded
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.streams import stream
from rapt.text.mentions import PROTECTED
from rapt.text.tagged import Tagged
from rapt.utils import files

SPLITS = ("train", "test")


@dataclass
class Originals:
    """A task's tagged splits, and a mechanism for them.

    Attributes:
        privatizer: of the mechanism at its η.
        task: name of the task.
        seed: the experiment's seed.
        protect: which words of an example share their noise; None: each has its own.
    """

    privatizer: AnyPrivatizer[Any]
    task: str
    seed: int
    protect: Protect | None = None

    @cached_property
    def tagged(self) -> dict[str, pa.Table]:
        """The splits."""
        folder = paths.tagged(self.task)
        found = {split: files.read_parquet(folder / f"{split}.parquet") for split in SPLITS}
        if self.protect is None:
            return found
        return {split: self._with_noise(table, self.protect) for split, table in found.items()}

    @staticmethod
    def _with_noise(tagged: pa.Table, protect: Protect) -> pa.Table:
        """Decide anew which words share their noise, as the file may be wrong."""
        columns = ("words", "pos", "space_after", "identifier", "segment")
        noise = []
        for *row, segment in seeded.rows_of(tagged, *columns):
            both, source = Tagged(*row), segment.count(0)
            parts = both.part(slice(0, source)), both.part(slice(source, None))
            noise.append(PROTECTED[protect](*parts).noise)
        at = tagged.column_names.index(seeded.NOISE)
        return tagged.set_column(at, seeded.NOISE, pa.array(noise, pa.list_(pa.int32())))

    @cached_property
    def texts(self) -> dict[str, list[PreparedText]]:
        """Each text of the splits as the privatizer prepares it."""
        return {
            split: list(seeded.prepared(self.privatizer, tagged))
            for split, tagged in self.tagged.items()
        }

    def copy(self, k: int, split: str) -> list[PreparedText]:
        """Each text of a split with the random stream that seed k's copy takes."""
        ids = self.tagged[split]["example_id"].to_pylist()
        return [
            replace(text, stream=partial(stream, self.seed, k, self.task, example))
            for text, example in zip(self.texts[split], ids, strict=True)
        ]


def originals(
    embedding: str, law: str, task: str, seed: int, protect: Protect | None = None
) -> Originals:
    """Prepare the checks of releases of a task.

    Args:
        embedding: name of the table.
        law: mechanism, categories and η of the releases, as JSON.
        task: name of the task.
        seed: the experiment's.
        protect: as in `Originals`.
    """
    return Originals(seeded.privatizer(embedding, *json.loads(law)), task, seed, protect)
