"""The interface of a kind of task on the user's side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from pydantic import Field, PositiveInt, model_validator

from rapt.data.config import (
    Attribute,
    FilesSource,
    Format,
    HubSource,
    PackageSource,
    Rows,
    Stripped,
)
from rapt.param_types import Protect, Section, problem

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rapt.data.prepare import Remaining
    from rapt.data.sources import Split
    from rapt.privacy.fates import Word
    from rapt.privacy.restoring import Map
    from rapt.release.text import TextPrivatizer

Json = Mapping[str, Any]


class Scored(NamedTuple):
    """Fields of a cell that the user scores.

    Attributes:
        metrics: of each seed.
        intervals: by metric.
        counts: of the texts of each split.
        baselines: by metric the score of a trivial answer.
    """

    metrics: Sequence[Mapping[str, float]]
    intervals: Mapping[str, tuple[float, float]]
    counts: Mapping[str, int]
    baselines: Mapping[str, float]


class Expectations(Protocol):
    """What the gate may expect of a column of raw rows."""

    def there(self, column: str, name: str) -> list[Any]:
        """Expect no value to be missing."""

    def in_set(
        self, column: str, name: str, values: Sequence[int | str], allowed: str
    ) -> list[Any]:
        """Expect every value, none missing, to be among `values`."""

    def texts(self, column: str, name: str) -> list[Any]:
        """Expect texts, none missing or empty, of the allowed length."""

    def equal(self, column: str, other: str, name: str, allowed: str) -> list[Any]:
        """Expect the values of two columns to be equal."""


class Task(Section, ABC):
    """A data set: its source, its format, and the columns and rows that are used.

    Attributes:
        compared: columns of data/raw by which two examples count as the same.
        keeps_spacing: whether a release holds what is after each word.
        scored_apart: whether what a model answers is scored by the user, by the stage `score`.
    """

    kind: str
    source: PackageSource | FilesSource | HubSource = Field(discriminator="type")
    format: Format | None = Field(None, description="of its files; null for the hub")
    text: str = Field("text", description="column of the text")
    exclude: dict[str, list[Stripped]] | None = Field(
        None, description="rows left out: column, then its values"
    )
    max_words: PositiveInt | None = Field(
        None, description="of a row, counted between spaces: longer rows are left out; null: any"
    )
    rows: Rows = Rows()

    compared: ClassVar[tuple[str, ...]] = ("text", "text_pair", "choices")
    keeps_spacing: ClassVar[bool] = False
    scored_apart: ClassVar[bool] = False

    @model_validator(mode="after")
    def _divided(self) -> Task:
        if self.source.type != "hub" and self.format is None:
            raise problem(f"got no format, expected one for a {self.source.type} source.")
        splits = {"files": "files", "hub": "splits"}.get(self.source.type)
        single = splits is None or "all" in getattr(self.source, splits)
        if (single or self.identifying) and self.rows.test is None:
            divided = "authors are" if self.identifying else "one file is"
            raise problem(f"got no rows.test, expected a number, as {divided} divided.")
        return self

    # What the section says

    @property
    def is_tuned(self) -> bool:
        """Whether a model can be tuned on it."""
        return True

    @property
    def names(self) -> list[str] | None:
        """The names of the classes, if there are classes."""
        return None

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns of a release that hold what is to be predicted."""
        return ()

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns of a tagged text that a release has as they are, if its unit allows it."""
        return (*self.targets, *(["space_after"] if self.keeps_spacing else []))

    @property
    def clean_columns(self) -> tuple[str, ...]:
        """The same of the clean release, which stays with the user.

        It has authors, and the spacing by which a policy finds addresses.
        """
        author = ["author"] if self.identifying else []
        return (*dict.fromkeys([*self.kept_columns, "space_after"]), *author)

    @property
    def inferred(self) -> Mapping[str, Attribute]:
        """Private attributes that an attacker infers."""
        return {}

    @property
    def identifying(self) -> Sequence[str]:
        """Columns that tell authors apart."""
        return ()

    @property
    def shared_noise(self) -> Protect | None:
        """Which words of an example share their noise with equal ones; None: each has its own."""
        return None

    # Its rows

    def read(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        """Return the columns of a split's rows: `text`, and what else the kind needs.

        Args:
            split: of the source.
            key: of the task in params.yaml, for errors.

        Raises:
            RaptError: a column is missing, or a row has something else.
        """
        from rapt.data import read

        return {"text": read.strings(split.columns, self.text, f"{key}.text", split.where)}

    def parse(self, rows: Remaining, key: str) -> None:
        """Turn what is to be predicted into numbers, and drop the rows that have none.

        Raises:
            RaptError: a value is something else.
        """

    def cut(self, rows: Remaining) -> dict[str, int]:
        """Cut texts; returns what the summary says of it."""
        return {}

    def examples(self, frame: pd.DataFrame, split: str) -> pd.DataFrame:
        """Return the examples that the rows of a split become."""
        return frame

    def columns(self, frame: pd.DataFrame) -> dict[str, pa.Array]:
        """Return columns of data/raw beside the texts (docs/data.md)."""
        return {}

    def expected(self, expect: Expectations, split: str) -> list[Any]:
        """Return what the gate expects of the rows of data/raw, beside their texts."""
        return []

    def check_enough(self, name: str, rows: pa.Table, least: int) -> None:
        """Check that there are enough training rows to tune on.

        Raises:
            RaptError: there are not.
        """

    # Its release

    def facts(self) -> dict[str, Any]:
        """Return what the statement of a release says of the task."""
        protect = self.shared_noise or "words"
        return {"kind": self.kind, "protect": protect, "labels": self.names}

    def gaps(self, mentions: Mapping[str, int] | None) -> list[str]:
        """Return what a release does not cover.

        Args:
            mentions: how often the texts mention the entities of their sources, and how.
        """
        return []

    @classmethod
    def released(
        cls, privatizer: TextPrivatizer, texts: Sequence[str], protect: Protect, tagger: str
    ) -> tuple[list[list[Word]], list[Map]]:
        """Privatize texts to ask a model about, not all of whose words will be sent.

        Returns:
            the words of each text, and a map for each by which the answer is restored, or none.
        """
        from rapt.release.ledger import NOWHERE

        return privatizer.release(texts, account=NOWHERE), []

    # Its scores

    @abstractmethod
    def alone(self, name: str, embedding: str, path: Path) -> Scored:
        """Score what the user reaches alone, from raw text and with nothing sent.

        Args:
            name: of the task.
            embedding: name of an embedding, whose table is public.
            path: to write the predictions to.

        Raises:
            RaptError: the rows do not suffice.
        """

    def scored(self, name: str, release: Path, answers: Path, path: Path) -> Scored:
        """Score what was answered, if that is `scored_apart`.

        Args:
            name: of the task.
            release: that the model was tuned on.
            answers: the file of answers to its test split.
            path: to write the restored answers to.
        """
        raise NotImplementedError  # params.yaml takes no other task into sweep.score
