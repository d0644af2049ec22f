"""The texts under attack, and how much of them an inversion recovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.intervals import interval, mean_interval
from rapt.attacks.base import Public, Release, Texts, Vectors
from rapt.privacy.categories import VERBATIM, Scheme
from rapt.text.table import EmbeddingTable


@dataclass(frozen=True, eq=False)
class Recovered:
    """What an inversion got right of each text.

    Attributes:
        words: of the text, int64 (n,).
        right: of these, the recovered ones.
        protected: of its words, those that the release protects.
        protected_right: of these, the recovered ones.
        errors: squared errors of the protected words' vectors, summed up, float64 (n,); None: the
            attack guesses no vectors.
    """

    words: NDArray[np.int64]
    right: NDArray[np.int64]
    protected: NDArray[np.int64]
    protected_right: NDArray[np.int64]
    errors: NDArray[np.float64] | None = None

    def metrics(self) -> dict[str, float]:
        """The metrics of an `invert` cell (docs/data.md)."""
        protected = float(self.protected_right.sum() / max(1, self.protected.sum()))
        found = {
            "accuracy": float(self.right.sum() / max(1, self.words.sum())),
            "accuracy_protected": protected,
            "empirical_privacy": 1 - protected,
        }
        if self.errors is not None:
            found["squared_error"] = float(self.errors.sum() / self.protected.sum())
        return found


def intervals(seeds: Sequence[Recovered]) -> dict[str, tuple[float, float]]:
    """A 95 % confidence interval for each metric, from what was recovered in each seed's copy."""

    def of(metric: str, summed: str, counted: str, how: Any = interval) -> tuple[float, float]:
        found: tuple[float, float] = how(
            np.sum([getattr(seed, summed) for seed in seeds], axis=0),
            np.sum([getattr(seed, counted) for seed in seeds], axis=0),
            np.array([seed.metrics()[metric] for seed in seeds]),
        )
        return found

    low, high = of("accuracy_protected", "protected_right", "protected")
    found = {
        "accuracy": of("accuracy", "right", "words"),
        "accuracy_protected": (low, high),
        "empirical_privacy": (1 - high, 1 - low),
    }
    if seeds[0].errors is not None:
        found["squared_error"] = of("squared_error", "errors", "protected", mean_interval)
    return found


class Victims:
    """The original words of the texts under attack.

    Args:
        words: of each text.
        pos: their tags.
        scheme: of the release: says which words it protects.
        form: spelling of a word in the table's vocabulary: guessing it counts as guessing the word.
    """

    def __init__(
        self,
        words: Texts,
        pos: Texts,
        scheme: Scheme,
        form: Callable[[str], str],
    ) -> None:
        self._texts = [[form(word) for word in text] for text in words]
        self._form = form
        self._groups = [[scheme.group_of(tag) for tag in text] for text in pos]

    def score(self, guesses: Texts) -> Recovered:
        """Compare with the attacker's guesses, a word for each word."""
        counts = [
            self._score(*text) for text in zip(self._texts, self._groups, guesses, strict=True)
        ]
        return Recovered(*np.array(counts, np.int64).reshape(-1, 4).T)

    def _score(
        self, text: Sequence[str], groups: Sequence[int], guess: Sequence[str]
    ) -> tuple[int, int, int, int]:
        pairs = zip(text, groups, guess, strict=True)
        found = [(group != VERBATIM, self._form(word) == truth) for truth, group, word in pairs]
        right = [good for protected, good in found if protected]
        return len(found), sum(good for _, good in found), len(right), sum(right)

    def counts(self, public: Public) -> tuple[NDArray[np.int64], int]:
        """How often each word of the table is protected here, int64 (V,), and how many others are.

        Others stand outside the table, or are replaced in another group here than their own.
        """
        rows = {word: row for row, word in enumerate(public.table.words)}
        counts, others = np.zeros(len(rows), np.int64), 0
        for (word, group), count in Counter(self._protected()).items():
            row = rows.get(word)
            if row is None or public.groups[row] != group:
                others += count
            else:
                counts[row] += count
        return counts, others

    def squared_errors(
        self, vectors: Callable[[Vectors], Vectors], release: Release, table: EmbeddingTable
    ) -> NDArray[np.float64]:
        """The squared errors of the protected words' vectors, summed over each text, float64 (n,).

        Of a vector it is the mean over its numbers.

        Args:
            vectors: what an attacker takes the original vectors to be of what is seen of words.
            release: a word for each word.
            table: the mechanism's.
        """
        seen, places = release.seen(table)
        guessed, at = vectors(seen), iter(places)
        errors = np.zeros(len(self._texts))
        for i, (text, groups) in enumerate(zip(self._texts, self._groups, strict=True)):
            rows = np.fromiter(islice(at, len(text)), np.int64)
            each = ((guessed[rows] - table.embed(text)) ** 2).mean(axis=1)
            errors[i] = each[np.array(groups) != VERBATIM].sum()
        return errors

    def spread(self, table: EmbeddingTable) -> float:
        """The squared error of who always guesses the mean of the protected words' vectors."""
        counts = Counter(word for word, _ in self._protected())
        vectors, weights = table.embed(list(counts)), list(counts.values())
        mean = np.average(vectors, axis=0, weights=weights)
        return float(np.average(((vectors - mean) ** 2).mean(axis=1), weights=weights))

    def majority(self) -> float:
        """What always guessing the commonest protected word reaches."""
        counts = Counter(word for word, _ in self._protected())
        return max(counts.values(), default=0) / max(1, counts.total())

    def _protected(self) -> Iterator[tuple[str, int]]:
        for text, groups in zip(self._texts, self._groups, strict=True):
            yield from ((w, g) for w, g in zip(text, groups, strict=True) if g != VERBATIM)
