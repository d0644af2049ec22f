"""Releasing noisy vectors in place of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms import VectorMechanism
from rapt.privacy.mechanisms.base import Vectors
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.privatizer import Words
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError, wrong_eta


class Representer:
    """A vector mechanism at one η over one table: every word gets noise."""

    def __init__(self, *, table: EmbeddingTable, mechanism: VectorMechanism, eta: float) -> None:
        """Take the table, the mechanism and η.

        Raises:
            RaptError: eta is not above 0; inf: without noise.
        """
        if not eta > 0:
            raise RaptError(f"eta: {wrong_eta(eta)}")
        self.table, self.mechanism, self.eta = table, mechanism, eta

    @cached_property
    def _search(self) -> ExactSearch:
        return ExactSearch(self.table.vectors)

    def nearest(self, vectors: Vectors) -> list[str]:
        """The table's word nearest to each vector (n, d): post-processing of what is released."""
        return [self.table.words[row] for row in self._search(vectors)]

    def release(self, texts: Iterable[Words]) -> Iterator[NDArray[np.float64]]:
        """The noisy vectors of each text, float64 (m, d): one for each word or one for all.

        A text without words has none.
        """
        for text in texts:
            vectors = self.table.embed(list(text.words))
            if not len(vectors):
                yield np.empty((0, self.table.dimension))
                continue
            draws = self.mechanism.draw(text.stream(), len(vectors), self.table.dimension)
            yield self.mechanism.represent(vectors, draws, self.eta)
