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
    """Counts of words that an inversion recovered, for each of n texts.

    Attributes:
        words: number of words, int64 (n,).
        right: number of recovered words.
        protected: number of words that the release protects.
        protected_right: number of recovered words among these.
        errors: sum of the squared errors of the protected words' vectors, float64 (n,); None: the
            attack guesses no vectors.
    """

    words: NDArray[np.int64]
    right: NDArray[np.int64]
    protected: NDArray[np.int64]
    protected_right: NDArray[np.int64]
    errors: NDArray[np.float64] | None = None

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of an `invert` cell (docs/data.md)."""
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
    """Compute a 95 % confidence interval for each metric, from the counts of each seed."""

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
        words: the words of each text.
        pos: their POS tags.
        scheme: the release's category scheme, which says which words are protected.
        form: maps a word to its spelling in the table; guessing that counts as guessing the word.
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
        """Compare the attacker's guesses, one for each word, with the originals."""
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
        """Count the protected words by row of the table, int64 (V,), and the other protected words.

        Others are not in the table, or are replaced here in another group than the table's.
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
        """Sum the squared errors of the protected words' vectors over each text, float64 (n,).

        The squared error of a vector is the mean over its components.

        Args:
            vectors: the attacker's guess of original vectors, from released ones.
            release: the release of these texts, word for word.
            table: the mechanism's embedding table.
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
        """Compute the squared error of always guessing the mean of the protected words' vectors."""
        counts = Counter(word for word, _ in self._protected())
        vectors, weights = table.embed(list(counts)), list(counts.values())
        mean = np.average(vectors, axis=0, weights=weights)
        return float(np.average(((vectors - mean) ** 2).mean(axis=1), weights=weights))

    def majority(self) -> float:
        """Compute the accuracy of always guessing the most frequent protected word."""
        counts = Counter(word for word, _ in self._protected())
        return max(counts.values(), default=0) / max(1, counts.total())

    def _protected(self) -> Iterator[tuple[str, int]]:
        for text, groups in zip(self._texts, self._groups, strict=True):
            yield from ((w, g) for w, g in zip(text, groups, strict=True) if g != VERBATIM)
