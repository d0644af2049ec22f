"""Draws of a case, by the code that releases, and the events that can be told apart in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rapt.audit.cases import Case
from rapt.audit.evidence import Codes, View
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


class Draws(ABC):
    """The outputs of a case's mechanism.

    Attributes:
        space: the candidates, or all words of a mechanism without categories.
        copies: of an input in one text.
    """

    space: Space
    copies = COPIES

    def __init__(self, case: Case, streams: Streams) -> None:
        """Take the case and the generators."""
        self._case, self._streams = case, streams

    def __call__(self, texts: Texts) -> Outputs:
        """The outputs for the texts: the codes of words, int64 (draws, words), or their vectors."""
        released = list(self.release(self._words(texts)))
        parts = []
        for i in range(len(texts)):
            outputs = np.concatenate(released[i :: len(texts)])
            width = len(released[i]) // self.copies
            parts.append(outputs.reshape(-1, width, *outputs.shape[1:]))
        return np.concatenate(parts, axis=1)[: self._case.draws]

    def _words(self, texts: Texts) -> Iterator[Words]:
        """As many texts as give the draws; under the law all their words are independent."""
        case = self._case
        for i in range(-(-case.draws // self.copies)):
            for place, words in enumerate(texts):
                named = (case.mechanism.name, str(case.eta), str(texts), i, place)
                every = words * self.copies
                yield Words(every, [0] * len(every), partial(self._streams, *named))

    def covers(self, word: str) -> bool:
        """Whether the mechanism protects a word: it may be of another category."""
        return True

    @abstractmethod
    def release(self, texts: Iterable[Words]) -> Iterator[Outputs]:
        """Release each text: the codes of its words (n,), or its vectors (m, d)."""

    @abstractmethod
    def views(self, one: Outputs, other: Outputs, texts: Texts, others: Texts) -> list[View]:
        """See the outputs of two inputs as finitely many codes."""


class WordDraws(Draws):
    """Words that a mechanism releases."""

    def __init__(self, case: Case, mechanism: WordMechanism, streams: Streams) -> None:
        """Prepare the release.

        Raises:
            RaptError: the mechanism is not defined for this case.
        """
        super().__init__(case, streams)
        self._privatizer = Privatizer(
            table=case.table,
            mechanism=mechanism,
            eta=case.eta,
            categories=("noun",) if mechanism.categories == "required" else None,
        )
        self.space = self._privatizer.spaces()[0]
        # A word that is released though the table lacks it gets a code too.
        self._codes = {word: code for code, word in enumerate(case.table.words)}

    def covers(self, word: str) -> bool:
        """See Draws."""
        return word in self._privatizer.words_of(0) or word not in self._case.table.words

    def release(self, texts: Iterable[Words]) -> Iterator[Outputs]:
        """See Draws."""
        for words in self._privatizer.privatize(texts):
            yield np.array([self._code(word) for word in words])

    def _code(self, word: str) -> int:
        return self._codes.setdefault(word, len(self._codes))

    def views(self, one: Outputs, other: Outputs, texts: Texts, _: Texts) -> list[View]:
        """The released words; of two, also whether they are the same."""
        own = [self._code(word) for text in texts for word in text]
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


class VectorDraws(Draws):
    """Vectors that a mechanism releases."""

    def __init__(self, case: Case, mechanism: VectorMechanism, streams: Streams) -> None:
        """Prepare the release."""
        super().__init__(case, streams)
        self._mechanism = mechanism
        self.space = Space(case.table.vectors, case.table.frequency)
        # A mechanism that draws once for a text takes a text for each draw.
        self.copies = 1 if mechanism.pooled else COPIES

    def release(self, texts: Iterable[Words]) -> Iterator[Outputs]:
        """See Draws."""
        for text in texts:
            vectors = self._case.table.embed(text.words)
            yield self._mechanism.release(vectors, text.stream(), self._case.eta)

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


def draws_of(case: Case, streams: Streams) -> Draws:
    """The draws of a case.

    Raises:
        RaptError: the mechanism is not defined for this case.
    """
    if isinstance(case.mechanism, WordMechanism):
        return WordDraws(case, case.mechanism, streams)
    return VectorDraws(case, cast(VectorMechanism, case.mechanism), streams)


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
