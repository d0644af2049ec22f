"""The texts of a value: a text, a list of texts, or a chat, a list of messages with their roles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

# What holds the text of a message, or of a part of one; all else of it, such as its role, stays.
CONTENT = ("content", "value", "text")
EXPECTED = "text, null, a list of texts, or a chat: a list of messages with content"

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class NoText(Exception):
    """A value holds something else than texts; the message says what, without its content."""


def texts_of(value: Any) -> list[str | None]:
    """Return the texts of a value, None where one is missing (None, NaN).

    Raises:
        NoText: it holds something else.
    """
    return list(_texts(value, in_list=False))


def with_texts(value: Any, texts: Iterator[str | None]) -> Any:
    """Return a value with as many other texts as it has; the rest of it stays."""
    if isinstance(value, str | bytes):
        text = next(texts)
        assert text is not None
        return text.encode() if isinstance(value, bytes) else text
    if isinstance(value, dict):
        return {
            name: with_texts(inner, texts) if name in CONTENT else inner
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | np.ndarray):
        return [with_texts(inner, texts) for inner in value]
    next(texts)  # a missing one stays as it is
    return value


def kept_members(value: Any) -> set[str]:
    """Return the names of what stays of a chat's messages: role."""
    if isinstance(value, dict):
        inner = {name for name in value if name not in CONTENT}
        return inner.union(*(kept_members(value[name]) for name in CONTENT if name in value))
    if isinstance(value, list | tuple | np.ndarray):
        return set().union(*map(kept_members, value))
    return set()


def _texts(value: Any, *, in_list: bool) -> Iterator[str | None]:
    if isinstance(value, str) or is_missing(value):
        yield value if isinstance(value, str) else None
    elif isinstance(value, bytes):
        yield decoded(value)
    elif isinstance(value, dict) and in_list and any(name in value for name in CONTENT):
        for name in value:
            if name in CONTENT:
                yield from _texts(value[name], in_list=False)
    elif isinstance(value, list | tuple | np.ndarray):
        for inner in value:
            yield from _texts(inner, in_list=True)
    else:
        raise NoText(f"a {type(value).__name__}")


def is_missing(value: Any) -> bool:
    """Whether a value is None, or NaN as pandas has it for None."""
    return value is None or (isinstance(value, float | np.floating) and value != value)


def decoded(value: bytes) -> str:
    """Return the text of bytes.

    Raises:
        NoText: they are not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NoText("bytes that are not UTF-8") from None


class Span(NamedTuple):
    """A value in a line of JSON: the name that it has in its object, and where it stands.

    Attributes:
        name: its name.
        key: where its name begins.
        start: where it begins.
        end: where it ends.
    """

    name: str
    key: int
    start: int
    end: int


def members(line: str) -> list[Span]:
    """Return the members of a line that is a JSON object, each as often as it occurs."""
    return list(_members(line, _skip(line, 0)))


def text_spans(line: str, span: Span) -> list[tuple[int, int] | None]:
    """Return where the texts of a member stand, each a string of JSON; None: one is missing.

    They are those of `texts_of`, and of names that occur twice all of them.

    Raises:
        NoText: the member holds something else.
    """
    return list(_text_spans(line, span.start, span.end, in_list=False))


def _text_spans(
    line: str, start: int, end: int, *, in_list: bool
) -> Iterator[tuple[int, int] | None]:
    if line[start] == '"':
        yield start, end
    elif line[start] in "nN":  # null, NaN
        yield None
    elif line[start] == "[":
        for inner in _elements(line, start):
            yield from _text_spans(line, *inner, in_list=True)
    elif line[start] == "{" and in_list and any(m.name in CONTENT for m in _members(line, start)):
        for member in _members(line, start):
            if member.name in CONTENT:
                yield from _text_spans(line, member.start, member.end, in_list=False)
    else:
        raise NoText(f"a {type(json.loads(line[start:end])).__name__}")


def _members(line: str, at: int) -> Iterator[Span]:
    at = _skip(line, at + 1)
    while line[at] != "}":
        name, end = _DECODER.raw_decode(line, at)
        start = _skip(line, _skip(line, end) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(line, start)
        yield Span(name, at, start, end)
        at = _skip(line, end)
        if line[at] == ",":
            at = _skip(line, at + 1)


def _elements(line: str, at: int) -> Iterator[tuple[int, int]]:
    at = _skip(line, at + 1)
    while line[at] != "]":
        _, end = _DECODER.raw_decode(line, at)
        yield at, end
        at = _skip(line, end)
        if line[at] == ",":
            at = _skip(line, at + 1)


def _skip(line: str, at: int) -> int:
    return _SPACE.match(line, at).end()  # type: ignore[union-attr]
