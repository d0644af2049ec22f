"""Messages between user and provider, parsed strictly, as neither side trusts the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from rapt.kinds import KINDS
from rapt.kinds.base import Kind
from rapt.kinds.messages import Message, Text
from rapt.tuning.config import Decoding
from rapt.tuning.inference_spec import NAME, Contract
from rapt.utils.errors import RaptError, did_you_mean, not_allowed

T = TypeVar("T")

BYTES = 1 << 23  # largest body: a text's vectors may take most of it
TEXTS = 32  # most texts of a request

CONTRACT = TypeAdapter(Contract)
HASH = re.compile(r"[0-9a-f]{64}")
NAMED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # names as in params.yaml, which cannot be paths


class Query(Message):
    """A user's query."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]


class Provider(Protocol):
    """An adapted model, local or remote."""

    @property
    def contract(self) -> Contract:
        """The contract that texts must meet."""

    def answer(self, texts: list[Text]) -> Sequence[Any]:
        """Return the answer to each of up to TEXTS texts, as the kind of task has it."""


def served_kind(contract: Contract) -> Kind:
    """Return the kind of the task of an adapted model."""
    return KINDS[contract.kind](tuple(contract.labels))


def asked(provider: Provider, texts: Sequence[Text]) -> Iterator[Any]:
    """Yield a provider's answer to each text, in requests that it takes."""
    contract = provider.contract
    # Vectors of one text fill a body.
    size = 1 if contract.statement.vectors else min(TEXTS, served_kind(contract).at_a_time)
    for start in range(0, len(texts), size):
        yield from provider.answer([*texts[start : start + size]])


def read(message: TypeAdapter[T], content: bytes, where: str) -> T:
    """Parse JSON of a type.

    Raises:
        RaptError: the content is invalid; the line names `where` it is from and the place in it,
            but never quotes the value.
    """
    try:
        return message.validate_json(content)
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
    if contract.kind not in KINDS:
        raise RaptError(f"{where}: {not_allowed('kind', contract.kind, KINDS)}")
    kind = served_kind(contract)
    sizes = {kind.segments(is_pair=is_pair) for is_pair in (False, True)}
    distinct = len(set(labels)) == len(labels) and bool(labels) is kind.has_classes
    decoding = contract.decoding or Decoding()
    for key, holds, expected in (
        ("statement.embedding", NAMED.fullmatch(statement.embedding), "a name"),
        ("statement.table_sha256", HASH.fullmatch(statement.table_sha256), "64 hex digits"),
        # `type` is the key of the mechanism's name in params.yaml.
        ("statement.parameters", "type" not in statement.parameters, "a mechanism's alone"),
        ("segments", contract.segments in sizes, "as many as its kind has"),
        ("held_out", 0 <= contract.held_out <= 0.5, "a share from 0 to 0.5"),
        (
            "decoding",
            (contract.decoding is not None) is kind.decodes(decoding),
            "one of a model that writes",
        ),
        ("labels", distinct and all(map(str.isprintable, labels)), "printable names, each once"),
    ):
        if not holds:
            raise RaptError(f"{where}: {key}: got something else, expected {expected}.")
    return contract


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
        wanted = len(text.words) if served_kind(contract).keeps_spacing else None
        if spaces != wanted:
            expected = "none" if wanted is None else "one entry for each word"
            got = "none" if spaces is None else f"{spaces}"
            raise _wrong(number, "space_after", got, expected)
        if text.vectors is not None and not contract.statement.vectors:
            raise _wrong(number, "vectors", "some", "none: words alone")


def _wrong(number: int, field: str, got: object, expected: str) -> RaptError:
    return RaptError(f"texts.{number}.{field}: got {got}, expected {expected}.")
