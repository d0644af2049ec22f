"""Which words of texts fit, and how their tokens follow each other; arrays instead of loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray

from rapt.tuning.inference_spec import fitting
from rapt.tuning.ragged import Ragged

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NO_PLAIN = -1
NO_ROW = -1  # a word represented by the backbone's own tokens


class Words(NamedTuple):
    """Words of several texts; arrays (words,).

    Attributes:
        text: the text of each.
        place: its place in the text.
        unit: its number among all different words.
        row: the row of the vector that replaces it, or NO_ROW.
    """

    text: Integers
    place: Integers
    unit: Integers
    row: Integers

    @classmethod
    def of(
        cls, texts: Sequence[Sequence[str]], units: Integers, rows: list[list[int]] | None
    ) -> Words:
        """Take the words of texts, by their numbers."""
        lengths = np.array([len(text) for text in texts], np.int64)
        return cls(
            text=np.repeat(np.arange(len(texts)), lengths),
            place=np.arange(len(units)) - np.repeat(lengths.cumsum() - lengths, lengths),
            unit=units,
            row=flat(rows) if rows else np.full(len(units), NO_ROW),
        )

    def at(self, chosen: NDArray[Any]) -> Words:
        """Return some of the words."""
        return Words(*(values[chosen] for values in self))


class Runs(NamedTuple):
    """Runs of tokens of several texts: of a word, or a special token; arrays (runs,).

    Attributes:
        text: the text of each.
        place: the order of a text's runs. Those of one place stand as they stand here.
        unit: of its tokens.
        type: of its tokens (segments of a pair).
        plain: the index of the plain word that it is, else NO_PLAIN.
        own: whether it belongs to the text itself.
    """

    text: Integers
    place: Integers
    unit: Integers
    type: Integers
    plain: Integers
    own: Flags

    @classmethod
    def of(
        cls,
        text: Integers,
        place: ArrayLike,
        unit: ArrayLike,
        type: ArrayLike = 0,
        plain: ArrayLike = NO_PLAIN,
        own: bool = False,
    ) -> Runs:
        """Take what differs as arrays, and what all runs share as one value."""
        return cls(*np.broadcast_arrays(text, place, unit, type, plain, own))


class Units:
    """The tokens of each unit: of a word, a special token, or a vector."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        """Take those of the first units, of which the words' numbers are some."""
        self.sizes = np.array([len(each) for each in tokens], np.int64)
        self._alone, self._tokens = list[int](), list(chain.from_iterable(tokens))

    def add(self, tokens: Iterable[int]) -> int:
        """Add units of one token each; return the number of the first."""
        first = len(self.sizes) + len(self._alone)
        self._alone += tokens
        return first

    def of(self, words: Words) -> Integers:
        """Return the unit of each word: a vector takes the place of its tokens, if it has any."""
        rows = 1 + int(words.row.max(initial=NO_ROW))
        first = self.add(range(-1, -1 - rows, -1))
        has_vector = (words.row != NO_ROW) & (self.sizes[words.unit] > 0)
        return np.where(has_vector, first + words.row, words.unit)

    def table(self) -> Ragged:
        """Return the tokens of all units."""
        values = torch.tensor([*self._tokens, *self._alone], dtype=torch.int32)
        sizes = np.append(self.sizes, np.ones(len(self._alone), np.int64))
        return Ragged.split(values, torch.from_numpy(sizes))


class LaidOut(NamedTuple):
    """The tokens of each text, and of each token its type, its plain word and whose it is."""

    tokens: Ragged
    types: Ragged
    plain: Ragged
    own: Ragged


def laid_out(runs: Sequence[Runs], units: Units, texts: int, pad: int) -> LaidOut:
    """Lay out the runs of each text one after the other.

    Args:
        runs: of texts 0 to `texts` - 1.
        units: the tokens of each.
        texts: how many there are.
        pad: the unit that stands for a text without tokens, as a model needs one.
    """
    table = units.table()
    starts, sizes = table.starts.numpy(), table.lengths.numpy()
    full = np.zeros(texts, bool)
    for each in runs:
        full[each.text[sizes[each.unit] > 0]] = True
    runs = [*runs, Runs.of(np.flatnonzero(~full), 0, pad)]
    every = Runs(*(np.concatenate(of_all) for of_all in zip(*runs, strict=True)))
    places = 1 + every.place.max(initial=0)
    order = (every.text * places + every.place).argsort(kind="stable")
    unit = every.unit[order]
    run = np.repeat(np.arange(len(unit)), sizes[unit])  # of each token
    ahead = starts[unit] - sizes[unit].cumsum() + sizes[unit]
    tokens = table.values.numpy()[ahead[run] + np.arange(len(run))]
    of_token = order[run]
    lengths = torch.from_numpy(np.bincount(every.text[of_token], minlength=texts))

    def ragged(values: NDArray[Any]) -> Ragged:
        return Ragged.split(torch.from_numpy(values), lengths)

    return LaidOut(
        tokens=ragged(tokens),
        types=ragged(every.type.astype(np.int8)[of_token]),
        plain=ragged(every.plain.astype(np.int32)[of_token]),
        own=ragged(every.own[of_token]),
    )


def different(*texts: Sequence[Sequence[str]]) -> tuple[list[str], list[Integers]]:
    """Return the different words of lists of texts, and the number of each word of each list."""
    words = [list(chain.from_iterable(each)) for each in texts]
    encoded = pa.array(list(chain.from_iterable(words)), pa.string()).dictionary_encode()
    numbers = encoded.indices.to_numpy().astype(np.int64)
    ends = np.cumsum([len(each) for each in words])[:-1]
    return encoded.dictionary.to_pylist(), np.split(numbers, ends)


def flat(rows: Sequence[Sequence[int]]) -> Integers:
    """Return the numbers of all rows, one after the other."""
    return np.fromiter(chain.from_iterable(rows), np.int64)


def that_fit(costs: Integers, group: Integers, texts: int, most: int) -> Flags:
    """Return which words are kept: the leading ones of a text, or of both halves of a pair.

    Args:
        costs: tokens that each word takes.
        group: 2 · text + half of each word, in ascending order.
        texts: how many there are.
        most: tokens of a text, which the halves of a pair share.
    """
    taken = np.bincount(group, costs, 2 * texts).astype(np.int64)
    first, second = taken.reshape(texts, 2).T
    short = np.minimum(np.minimum(first, second), most // 2)
    room = np.where(first > second, most - short, short)
    is_pair = np.bincount(group, minlength=2 * texts)[1::2] > 0
    room = np.where(is_pair, room, most)
    before = costs.cumsum() - (taken.cumsum() - taken)[group]
    kept: Flags = before <= np.stack((room, most - room), 1).ravel()[group]
    return kept


def of_prompts(costs: Integers, group: Integers, parts: int, texts: int, room: int) -> Flags:
    """Return which words of questions and of their choices are kept; see `fitting`.

    Args:
        costs: tokens that each word takes.
        group: parts · text + part of each word, in ascending order.
        parts: a question and its choices.
        texts: how many there are.
        room: tokens of a text's words.
    """
    ends = [0, *np.bincount(group, minlength=parts * texts).cumsum().tolist()]
    sizes, kept = costs.tolist(), np.zeros(len(costs), bool)
    for text in range(0, parts * texts, parts):
        spans = [slice(*ends[at : at + 2]) for at in range(text, text + parts)]
        for span, fits in zip(spans, fitting([sizes[s] for s in spans], room), strict=True):
            kept[span][fits] = True
    return kept
