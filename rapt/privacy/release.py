"""Privatizing tagged texts, and the statement that goes with a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms import VERBATIM, Mechanism
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.noise import spherical_noise
from rapt.text.table import EmbeddingTable

WORDS = 4096  # words privatized at a time
D_X, UNPROTECTED = "d_X-privacy", "unprotected"


@dataclass(frozen=True)
class Words:
    """One text to privatize: its words, the group of each, and its own random stream."""

    words: Sequence[str]
    groups: Sequence[int]
    stream: Callable[[], np.random.Generator]


class Privatizer:
    """A mechanism at one η over one table.

    Attributes:
        table: the embedding table.
        mechanism: which words get noise and where their neighbours are searched.
        eta: above 0; inf: words are released as they are.
        candidates: int64, the rows that the mechanism can release: V_r.
    """

    def __init__(self, table: EmbeddingTable, mechanism: Mechanism, eta: float) -> None:
        """Prepare the search in each group.

        Raises:
            ValueError: eta is not above 0.
        """
        if not eta > 0:
            raise ValueError(f"eta: {eta} given, allowed: above 0")
        self.table, self.mechanism, self.eta = table, mechanism, eta
        self._groups = mechanism.groups(table.pos)
        self.candidates: NDArray[np.int64] = np.unique(np.concatenate(self._groups))
        self._words = [frozenset(table.words[row] for row in rows) for rows in self._groups]
        self._searches = [ExactSearch(table.vectors[rows]) for rows in self._groups]

    def words_of(self, group: int) -> frozenset[str]:
        """The words that a word of this group can become."""
        return self._words[group]

    def groups_of_text(self, pos: Iterable[str]) -> list[int]:
        """The group of each word of a text, from its tags in context."""
        return [self.mechanism.group_of(tag) for tag in pos]

    def groups_of_rows(self, rows: NDArray[np.int64]) -> list[int]:
        """The group that each of these table rows was drawn from: the first that holds it."""
        first = np.full(len(self.table.words), VERBATIM)
        for group in reversed(range(len(self._groups))):
            first[self._groups[group]] = group
        return [int(group) for group in first[rows]]

    def privatize(self, texts: Iterable[Words]) -> Iterator[list[str]]:
        """Release the words of each text, one for one.

        A word of a group becomes the word nearest to its vector plus noise among the group's rows,
        be it in the table or not: an unknown word is always replaced. The words of one text take
        their noise from its stream in order, also those released verbatim, so that mechanisms that
        differ in their groups share the noise of each word.
        """
        for batch in _batches(texts):
            if np.isinf(self.eta):
                yield from (list(text.words) for text in batch)
                continue
            yield from self._privatize(batch)

    def _privatize(self, batch: list[Words]) -> Iterator[list[str]]:
        words = np.array([word for text in batch for word in text.words], dtype=object)
        groups = np.array([group for text in batch for group in text.groups], dtype=np.int64)
        d = self.table.dimension
        noise = [spherical_noise(t.stream(), len(t.words), d, self.eta) for t in batch]
        noisy = np.concatenate(noise) + self.table.embed(list(words))
        for group, (rows, search) in enumerate(zip(self._groups, self._searches, strict=True)):
            (at,) = np.nonzero(groups == group)
            words[at] = [self.table.words[row] for row in rows[search(noisy[at])]]
        ends = np.cumsum([len(text.words) for text in batch])
        yield from (list(part) for part in np.split(words, ends[:-1]))

    def replaced(self, before: Sequence[str], after: Sequence[str]) -> list[bool]:
        """Whether each word became another; its spelling in the vocabulary's form counts as it."""
        return [self.table.form(b) != a and b != a for b, a in zip(before, after, strict=True)]


def _batches(texts: Iterable[Words]) -> Iterator[list[Words]]:
    batch: list[Words] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.words)
        if size >= WORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def statement(privatizer: Privatizer, *, eta: str, **facts: Any) -> dict[str, Any]:
    """The privacy statement of a release (docs/data.md): what holds and what does not.

    Args:
        privatizer: what made the release.
        eta: as params.yaml writes it.
        **facts: the fields that the release itself decides (task, method, embedding, …).
    """
    mechanism, protected = privatizer.mechanism, not np.isinf(privatizer.eta)
    categories = getattr(mechanism, "categories", None)
    return facts | {
        "mechanism": mechanism.name,
        "categories": None if categories is None else list(categories),
        "eta": eta,
        "table_sha256": privatizer.table.sha256,
        "metric": mechanism.metric,
        "protection": D_X if protected else UNPROTECTED,
        "guarantee": mechanism.guarantee(eta)
        if protected
        else "None: the words are the originals.",
        "not_covered": mechanism.not_covered() if protected else ["Everything."],
    }
