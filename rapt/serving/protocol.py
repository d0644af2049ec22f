"""Messages between user and provider, parsed strictly, as neither side trusts the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rapt.tuning.inference_spec import NAME, Contract, fitting
from rapt.utils.errors import RaptError, did_you_mean

T = TypeVar("T")

BYTES = 1 << 23  # largest body: a text's vectors may take most of it
TEXTS = 32  # most texts of a request
WRITTEN = 8  # texts that are asked for at a time of kind generate

CONTRACT = TypeAdapter(Contract)
HASH = re.compile(r"[0-9a-f]{64}")
NAMED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # names as in params.yaml, which cannot be paths


class Message(BaseModel):
    """A message: no type is converted, and no other field is allowed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_bytes="base64", val_json_bytes="base64"
    )


class Text(Message):
    """One text as a release holds it (docs/data.md).

    The words' noisy vectors, if the model was tuned on vectors, are little-endian float32. What is
    after each word a model of kind generate alone is told.
    """

    words: list[str]
    segment: list[Annotated[int, Field(ge=0)]]
    plain: list[str]
    vectors: bytes | None = None
    space_after: list[bool] | None = None


class Query(Message):
    """A user's query."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]


class Answer(Message):
    """The probability of each class, for each text of a query."""

    labels: list[str]
    probabilities: list[list[Annotated[float, Field(ge=0, le=1)]]]


class Written(Message):
    """The text that a model of kind generate wrote for each text of a query."""

    texts: list[str]


class Provider(Protocol):
    """An adapted model, local or remote."""

    @property
    def contract(self) -> Contract:
        """The contract that texts must meet."""

    def probabilities(self, texts: list[Text]) -> list[list[float]]:
        """Return the probability of each class of the contract, for each of up to TEXTS texts."""

    def write(self, texts: list[Text]) -> list[str]:
        """Return the text that a model of kind generate writes for each of up to TEXTS sources."""


def asked(provider: Provider, texts: Sequence[Text]) -> Iterator[list[float]]:
    """Yield a provider's answer to each text, in requests that it takes."""
    size = 1 if provider.contract.statement.vectors else TEXTS  # vectors of one text fill a body
    for start in range(0, len(texts), size):
        yield from provider.probabilities([*texts[start : start + size]])


def written(provider: Provider, texts: Sequence[Text]) -> Iterator[str]:
    """Yield what a provider writes for each text, in requests of a few: writing takes seconds."""
    for start in range(0, len(texts), WRITTEN):
        yield from provider.write([*texts[start : start + WRITTEN]])


def read(kind: TypeAdapter[T], content: bytes, where: str) -> T:
    """Parse JSON of a type.

    Raises:
        RaptError: the content is invalid; the line names `where` it is from and the place in it,
            but never quotes the value.
    """
    try:
        return kind.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise RaptError(f"{where}: got what is not JSON, expected JSON.") from None
        # An unknown field's name may be anything, so it is not quoted.
        place = first["loc"][: -1 if first["type"] == "extra_forbidden" else None]
        line = ": ".join([where, *([".".join(map(str, place))] if place else [])])
        if first["type"] == "missing":
            raise RaptError(f"{line}: got nothing, expected a value.") from None
        if first["type"] == "extra_forbidden":
            raise RaptError(f"{line}: got an unknown field, expected no others.") from None
        expected = re.sub(r"^\w+ should (be |have )?", "", first["msg"])
        raise RaptError(f"{line}: got an invalid value, expected {expected}.") from None


def contract_of(folder: Path) -> Contract:
    """Read the contract in an adapter's folder."""
    path = folder / NAME
    if not path.is_file():
        seeds = sorted(inside.parent for inside in folder.glob(f"*/{NAME}"))
        hint = did_you_mean([str(seed) for seed in seeds])
        raise RaptError(
            f"adapter: got {str(folder)!r}, which holds no {NAME}, expected the folder of a tuned "
            f"seed, models/adapters/CELL/seed-K.{hint}"
        )
    return read_contract(path.read_bytes(), str(path))


def read_contract(content: bytes, where: str) -> Contract:
    """Read a contract, and check the names in it, which the user's machine opens and prints.

    Raises:
        RaptError: it is not a contract, or has values that no tuning run writes.
    """
    contract = read(CONTRACT, content, where)
    statement, labels = contract.statement, contract.labels
    of_kind = {"classify": (1, 2), "choose": (1 + len(labels),), "generate": (1,)}
    writes = contract.kind == "generate"
    decoded = (writes, contract.chat and contract.kind == "choose")
    distinct = len(set(labels)) == len(labels) and bool(labels) is not writes
    for key, holds, expected in (
        ("statement.embedding", NAMED.fullmatch(statement.embedding), "a name"),
        ("statement.table_sha256", HASH.fullmatch(statement.table_sha256), "64 hex digits"),
        # `type` is the key of the mechanism's name in params.yaml.
        ("statement.parameters", "type" not in statement.parameters, "a mechanism's alone"),
        ("segments", contract.segments in of_kind[contract.kind], "as many as its kind has"),
        ("held_out", 0 <= contract.held_out <= 0.5, "a share from 0 to 0.5"),
        ("decoding", (contract.decoding is not None) in decoded, "one of a model that writes"),
        ("labels", distinct and all(map(str.isprintable, labels)), "printable names, each once"),
    ):
        if not holds:
            raise RaptError(f"{where}: {key}: got something else, expected {expected}.")
    return contract


def readable(sizes: Sequence[int], contract: Contract) -> list[slice]:
    """Return the words of each segment that the model can read, at one token or more per word.

    A pair shares the tokens equally; a segment that is shorter than its half leaves the rest to the
    other. A question and its choices share them by `fitting`.

    Args:
        sizes: the number of words of each segment.
        contract: of the model.
    """
    most = contract.max_tokens
    if contract.kind == "choose":
        # A letter before each choice, and but in a chat a word after all.
        frame = len(sizes) - contract.chat
        return fitting([[1] * size for size in sizes], max(0, most - frame))
    if len(sizes) == 1:
        return [slice(most)]
    return [slice(most - min(other, most // 2)) for other in reversed(sizes)]


def check(texts: list[Text], contract: Contract) -> None:
    """Check that texts meet a contract.

    Raises:
        RaptError: a text does not; the line gives its number.
    """
    lengths = {len(sequence) for sequence in contract.plain} or {0}
    for number, text in enumerate(texts):
        if len(text.segment) != len(text.words):
            raise _wrong(number, "segment", len(text.segment), "one entry for each word")
        for segment, count in Counter(text.segment).items():
            if count > contract.max_tokens:
                raise _wrong(number, "words", count, f"at most {contract.max_tokens} of a segment")
            if segment >= contract.segments:
                got, most = f"segment {segment}", contract.segments - 1
                raise _wrong(number, "segment", got, f"none above {most}")
        if len(text.plain) not in lengths:
            raise _wrong(number, "plain", len(text.plain), ", ".join(map(str, lengths)))
        if text.vectors is None and contract.statement.vectors:
            raise _wrong(number, "vectors", "none", "one for each word")
        spaces = None if text.space_after is None else len(text.space_after)
        expected = len(text.words) if contract.kind == "generate" else None
        if spaces != expected:
            told = "none" if expected is None else "one entry for each word"
            raise _wrong(number, "space_after", "none" if spaces is None else f"{spaces}", told)
        if text.vectors is not None and not contract.statement.vectors:
            raise _wrong(number, "vectors", "some", "none: words alone")


def _wrong(number: int, field: str, got: object, expected: str) -> RaptError:
    return RaptError(f"texts.{number}.{field}: got {got}, expected {expected}.")
