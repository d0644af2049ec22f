"""The tagged text that a release was made from, and an independent release of a sample of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from rapt import paths
from rapt.param_types import Protect
from rapt.privacy import seeded
from rapt.privacy.privatizer import Privatizer, Released, Words
from rapt.privacy.replay import Values, measures
from rapt.privacy.streams import stream
from rapt.text.mentions import PROTECTED
from rapt.text.tagged import Tagged
from rapt.utils import files

SPLITS = ("train", "test")
# Protected words of each split that are replayed, at most. 4,000 words of both splits suffice to
# detect a replaced share that is 6 percentage points too low.
REPLAYED = 2000


@dataclass
class Originals:
    """A task's tagged splits, and an independent release of a sample of them.

    Attributes:
        privatizer: of the mechanism at its η.
        task: name of the task.
        seed: the experiment's seed.
        protect: of a task of kind generate, which of its words get noise; None: of another kind.
    """

    privatizer: Privatizer
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
    def texts(self) -> dict[str, list[Words]]:
        """Each text of the splits as the privatizer prepares it."""
        return {
            split: [
                self.privatizer.text(*row) for row in seeded.rows_of(tagged, *seeded.told(tagged))
            ]
            for split, tagged in self.tagged.items()
        }

    @cached_property
    def sample(self) -> dict[str, list[int]]:
        """The rows of each split that are replayed."""
        return {split: self._sample(split, texts) for split, texts in self.texts.items()}

    def _sample(self, split: str, texts: Sequence[Words]) -> list[int]:
        words = [sum(text.drawn) for text in texts]
        return _sample(words, stream(self.seed, self.task, split, "gate-sample"))

    @cached_property
    def sampled(self) -> list[Words]:
        """The texts of the sample."""
        return [self.texts[split][row] for split, rows in self.sample.items() for row in rows]

    @cached_property
    def replay(self) -> list[Released]:
        """The release of the sample; it has no noise in common with any copy."""
        return [
            text
            for split, rows in self.sample.items()
            for text in seeded.release(
                self.privatizer,
                self.tagged[split]
                .select(["example_id", *seeded.told(self.tagged[split])])
                .take(rows),
                *(self.task, split, "gate"),
                seed=self.seed,
            )
        ]

    @cached_property
    def replaced(self) -> list[bool]:
        """Whether the replay replaced each protected word of the sample."""
        words = [text.words for text in self.replay]
        return list(chain.from_iterable(replaced_words(self.privatizer, self.sampled, words)))

    @cached_property
    def measures(self) -> dict[str, Values]:
        """The values of the replay that releases are compared with."""
        return measures(self.privatizer, self.sampled, self.replay)


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


def replaced_words(
    privatizer: Privatizer, texts: Sequence[Words], after: Sequence[Sequence[str]]
) -> list[list[bool]]:
    """Return for each protected word of each text whether it was replaced."""
    flags = []
    for text, released in zip(texts, after, strict=True):
        each = zip(privatizer.replaced(text.words, released), text.drawn, strict=True)
        flags.append([changed for changed, is_drawn in each if is_drawn])
    return flags


def _sample(words: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Draw random texts with at most REPLAYED words together, but at least one text."""
    order = rng.permutation(len(words))
    few = np.searchsorted(np.cumsum(np.asarray(words, np.int64)[order]), REPLAYED, side="right")
    return sorted(order[: max(1, int(few))].tolist())
