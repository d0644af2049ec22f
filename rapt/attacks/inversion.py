"""Inversion: which word stood where a word was released?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rapt.privacy.categories import VERBATIM, Scheme


def nearest_neighbour(released: Sequence[str]) -> list[str]:
    """White-box inversion (Qu et al., 2021): the word whose vector is nearest to the released one.

    The attacker knows the table and learns nothing. Where words are released, not vectors, the
    nearest to a word's vector is that word.
    """
    return list(released)


@dataclass
class Recovered:
    """Counts of the words an inversion got right, among all and among the protected ones."""

    words: int = 0
    right: int = 0
    protected: int = 0
    protected_right: int = 0

    def accuracies(self) -> dict[str, float]:
        """The metrics of an `invert` cell (docs/data.md)."""
        protected = self.protected_right / max(1, self.protected)
        return {
            "accuracy": self.right / max(1, self.words),
            "accuracy_protected": protected,
            "empirical_privacy": 1 - protected,
        }


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
        words: Sequence[Sequence[str]],
        pos: Sequence[Sequence[str]],
        scheme: Scheme,
        form: Callable[[str], str],
    ) -> None:
        self._texts = [[form(word) for word in text] for text in words]
        self._form = form
        self._protected = [[scheme.group_of(tag) != VERBATIM for tag in text] for text in pos]

    def __len__(self) -> int:
        return sum(map(sum, self._protected))

    def score(self, guesses: Sequence[Sequence[str]]) -> Recovered:
        """Compare with the attacker's guesses, a word for each word."""
        found = Recovered()
        for text, protected, guess in zip(self._texts, self._protected, guesses, strict=True):
            for truth, counts, word in zip(text, protected, guess, strict=True):
                right = self._form(word) == truth
                found.words += 1
                found.right += right
                found.protected += counts
                found.protected_right += counts and right
        return found

    def majority(self) -> float:
        """What always guessing the commonest protected word reaches."""
        counts = Counter(
            word
            for text, protected in zip(self._texts, self._protected, strict=True)
            for word, counts in zip(text, protected, strict=True)
            if counts
        )
        return max(counts.values(), default=0) / max(1, len(self))
