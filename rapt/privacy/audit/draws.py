"""Draws of a case, by the code that releases, and the events that can be told apart in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.audit.cases import Case
from rapt.privacy.audit.evidence import Codes, View
from rapt.privacy.mechanisms import Space, VectorMechanism, WordMechanism
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.streams import fresh, stream

Texts = tuple[tuple[str, ...], ...]  # an input: what is released together
Streams = Callable[..., np.random.Generator]
Outputs = NDArray[Any]

COPIES = 100  # of an input in one text, where each word draws anew
BINS = 50  # of a number
NAMED = 4  # outputs in the text of an event
VIEWS = 3  # of the outputs of two inputs, at most


def streams(seed: int | None) -> Streams:
    """The generators by name: those of releases, or repeatable ones."""
    return (lambda *_: fresh()) if seed is None else partial(stream, seed, "audit")


class WordDraws:
    """Words that a mechanism releases."""

    def __init__(self, case: Case, mechanism: WordMechanism, streams: Streams) -> None:
        """Prepare the release.

        Raises:
            RaptError: the mechanism is not defined for this case.
        """
        self._case, self._streams = case, streams
        self._privatizer = Privatizer(
            table=case.table,
            mechanism=mechanism,
            eta=case.eta,
            categories=("noun",) if mechanism.categories == "required" else None,
        )
        # A word that is released though the table lacks it gets a code too.
        self._codes = {word: code for code, word in enumerate(case.table.words)}

    @property
    def space(self) -> Space:
        """The candidates."""
        return self._privatizer.spaces()[0]

    def covers(self, word: str) -> bool:
        """Whether the mechanism protects a word: of another category, none."""
        return word in self._privatizer.words_of(0) or word not in self._case.table.words

    def __call__(self, texts: Texts) -> Outputs:
        """The codes of the words that the texts become, int64 (draws, words)."""
        released = self._privatizer.privatize(_words(self._case, texts, COPIES, self._streams))
        codes = [
            [self._codes.setdefault(word, len(self._codes)) for word in words] for words in released
        ]
        width = [len(text) for text in texts]
        parts = [np.reshape(codes[i :: len(texts)], (-1, width[i])) for i in range(len(texts))]
        return np.concatenate(parts, axis=1)[: self._case.draws]

    def views(self, one: Outputs, other: Outputs, texts: Texts, _: Texts) -> list[View]:
        """The released words; of two, also whether they are the same."""
        own = [self._codes.setdefault(word, len(self._codes)) for text in texts for word in text]
        size, names = len(self._codes), list(self._codes)
        places = size ** np.arange(len(own))
        seen, codes = np.unique(np.concatenate([one, other]) @ places, return_inverse=True)

        def describe(event: Codes) -> str:
            some = [" ".join(names[key // place % size] for place in places) for key in seen[event]]
            rest = [f"{len(some) - NAMED} more"] if len(some) > NAMED else []
            return ", ".join(some[:NAMED] + rest)

        (at,) = np.nonzero(seen == own @ places)
        first, second = np.split(codes, [len(one)])
        whole = View(first, second, describe, int(at[0]) if len(at) else None)
        if len(own) == 1:
            return [whole]
        first, second = ((pair[:, 0] == pair[:, 1]).astype(np.int64) for pair in (one, other))
        names_of_two = "different words", "equal words"
        return [whole, View(first, second, lambda event: names_of_two[event[0]])]


class VectorDraws:
    """Vectors that a mechanism releases."""

    def __init__(self, case: Case, mechanism: VectorMechanism, streams: Streams) -> None:
        """Prepare the release."""
        self._case, self._mechanism, self._streams = case, mechanism, streams
        # A mechanism that draws once for a text takes a text for each draw.
        self._copies = 1 if mechanism.pooled else COPIES

    @property
    def space(self) -> Space:
        """The words' vectors."""
        return Space(self._case.table.vectors, self._case.table.frequency)

    def covers(self, _: str) -> bool:
        """Whether the mechanism protects a word: always."""
        return True

    def __call__(self, texts: Texts) -> Outputs:
        """The vectors that the texts become, float64 (draws, vectors, d)."""
        words = _words(self._case, texts, self._copies, self._streams)
        embed, release = self._case.table.embed, self._mechanism.release
        released = [release(embed(text.words), text.stream(), self._case.eta) for text in words]
        parts = [
            np.concatenate(released[i :: len(texts)]).reshape(
                -1, len(released[i]) // self._copies, self._case.table.dimension
            )
            for i in range(len(texts))
        ]
        return np.concatenate(parts, axis=1)[: self._case.draws]

    def views(self, one: Outputs, other: Outputs, texts: Texts, others: Texts) -> list[View]:
        """Where the vector lies between the inputs; of two vectors, their distance.

        The difference of the distances is what the likelihood ratio of noise depends on, Euclidean
        of spherical noise and absolute of Laplace noise.
        """
        if one.shape[1] == 2:
            apart = [_norm(y[:, 0] - y[:, 1]) for y in (one, other)]
            return [_binned("distance of the two", *apart)]
        here, there = (
            self._case.table.embed([word for text in both for word in text]).mean(axis=0)
            for both in (texts, others)
        )
        scores: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
            "place along the difference": lambda y: (y - here) @ (there - here),
            "distances' difference": lambda y: _norm(y - there) - _norm(y - here),
            "absolute distances' difference": lambda y: _sum(y - there) - _sum(y - here),
        }
        return [
            _binned(name, score(one[:, 0]), score(other[:, 0])) for name, score in scores.items()
        ]


def draws_of(case: Case, streams: Streams) -> WordDraws | VectorDraws:
    """The draws of a case.

    Raises:
        RaptError: the mechanism is not defined for this case.
    """
    if isinstance(case.mechanism, WordMechanism):
        return WordDraws(case, case.mechanism, streams)
    return VectorDraws(case, cast(VectorMechanism, case.mechanism), streams)


def _words(case: Case, texts: Texts, copies: int, streams: Streams) -> Iterator[Words]:
    """As many texts as give the draws; under the law all their words are independent."""
    for i in range(-(-case.draws // copies)):
        for place, words in enumerate(texts):
            named = partial(streams, case.mechanism.name, str(case.eta), str(texts), i, place)
            yield Words(words * copies, [0] * len(words) * copies, named)


def _binned(name: str, one: NDArray[np.float64], other: NDArray[np.float64]) -> View:
    """Bins of equal mass in the half of the draws on which events are chosen."""
    chosen = np.concatenate([np.array_split(numbers, 2)[0] for numbers in (one, other)])
    edges = np.unique(np.quantile(chosen, np.arange(1, BINS) / BINS))
    ends = ["-inf", *(f"{edge:.3g}" for edge in edges), "inf"]
    codes = [np.searchsorted(edges, numbers, side="right") for numbers in (one, other)]

    def describe(event: Codes) -> str:
        runs = np.split(event, np.flatnonzero(np.diff(event) > 1) + 1)
        return f"{name} in " + ", ".join(f"[{ends[run[0]]}, {ends[run[-1] + 1]})" for run in runs)

    return View(codes[0], codes[1], describe)


def _norm(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.norm(vectors, axis=1)


def _sum(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(vectors).sum(axis=1)
