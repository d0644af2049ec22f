"""The texts under attack, and how many of their words an inversion recovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.attacks.base import Public, Release, Texts, Vectors
from rapt.attacks.scores import Counts, Scores
from rapt.privacy.categories import VERBATIM
from rapt.text.table import EmbeddingTable


class Victims:
    """The original words of the texts under attack.

    Args:
        words: the words of each text.
        groups: of each word the group that it is replaced in (`Privatizer.text`); VERBATIM: it is
            not protected.
        form: maps a word to its spelling in the table; guessing that counts as guessing the word.
    """

    def __init__(
        self,
        words: Texts,
        groups: Sequence[Sequence[int]],
        form: Callable[[str], str],
    ) -> None:
        self._texts = [[form(word) for word in text] for text in words]
        self._form = form
        self._groups = [np.array(text, int) for text in groups]
        # Of each text, int64 (n,).
        self.words = np.array([len(text) for text in words])
        self.protected = np.array([(groups != VERBATIM).sum() for groups in self._groups])

    def score(self, guesses: Texts, errors: NDArray[np.float64] | None = None) -> Scores:
        """Compare the attacker's guesses, one for each word, with the originals.

        Args:
            guesses: the guessed words.
            errors: as by `squared_errors`; None: the attack guesses no vectors.
        """
        right = [
            np.array([self._form(guess) == word for word, guess in zip(*text, strict=True)], bool)
            for text in zip(self._texts, guesses, strict=True)
        ]
        of_protected = [
            (found & (groups != VERBATIM)).sum()
            for found, groups in zip(right, self._groups, strict=True)
        ]
        ratios: dict[str, tuple[NDArray[Any], Counts]] = {
            "accuracy": (np.array([found.sum() for found in right]), self.words),
            "accuracy_protected": (np.array(of_protected), self.protected),
        }
        if errors is not None:
            ratios["squared_error"] = (errors, self.protected)
        return Scores(ratios, {"empirical_privacy": "accuracy_protected"})

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
            errors[i] = each[groups != VERBATIM].sum()
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
