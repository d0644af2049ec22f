"""A smoothed bigram model of public text, and the likeliest originals of a released text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bigrams:
    """P(v|w), that v follows w, over S = V + 2 states.

    The states are the words of a table by their rows, any other word, and the edge of a text. By
    Witten and Bell (1991), with c the counts in public text and T(w) the number of distinct states
    that follow w there,

        P(v|w) = (c(w,v) + T(w)·P(v)) / (c(w) + T(w)),    P(v) = (c(v) + T·π(v)) / (c + T)

    with π the prior and T the number of distinct states in the text. Without text P(v|w) is π(v).

    Attributes:
        pairs: c(w,v) / (c(w) + T(w)), float64 (S, S).
        backoff: T(w) / (c(w) + T(w)), float64 (S,), 1 without c(w).
        single: P(v), float64 (S,).
    """

    pairs: csr_array
    backoff: Shares
    single: Shares

    @classmethod
    def of(cls, texts: Iterable[Rows], prior: Shares) -> Bigrams:
        """Count public text.

        Args:
            texts: the row of each word; -1 for a word outside the table.
            prior: π, float64 (V,), 1 in sum.
        """
        size = len(prior)
        unknown, edge = size, size + 1
        ends = np.array([edge])
        chains = [np.concatenate((ends, np.where(t < 0, unknown, t), ends)) for t in texts]
        firsts, seconds = (
            np.concatenate([np.empty(0, np.int64), *(chain[part] for chain in chains)])
            for part in (slice(-1), slice(1, None))
        )
        shape = (size + 2, size + 2)
        counts = csr_array((np.ones(len(firsts)), (firsts, seconds)), shape=shape)
        # π of a word outside the table, and of an edge, as of a table's mean word.
        full = np.concatenate((prior, [1 / size] * 2)) / (1 + 2 / size)
        words = np.asarray(counts.sum(axis=0), np.float64)
        types, total = np.count_nonzero(words), words.sum()
        single = (words + types * full) / (total + types) if total else full
        follow = np.diff(counts.indptr)
        whole = np.maximum(np.asarray(counts.sum(axis=1), np.float64) + follow, 1)
        backoff = np.where(follow > 0, follow / whole, 1.0)
        return cls(csr_array(diags_array(1 / whole) @ counts), backoff, single)

    def log_ratios(self, before: Rows, after: Rows) -> Shares:
        """Return log P(v|w)/P(v), float64 (n, m), of n states w and m states v."""
        counted = self.pairs[before][:, after].toarray()
        single = self.single[after]
        return np.log((counted + np.outer(self.backoff[before], single)) / single)

    def marginals(self, emissions: Sequence[Shares]) -> Shares:
        """Return P(original of each place | the whole released text), float64 (n, S).

        The forward-backward algorithm (Baum et al., 1970), exact over all states.

        Args:
            emissions: for each of n places how likely each state is released as what stands there,
                float64 (S,), up to a factor.
        """
        ahead, behind = [self._edge], [self.pairs @ self._edge + self.backoff * self.single[-1]]
        for emission in emissions:
            now = ahead[-1] @ self.pairs + (ahead[-1] @ self.backoff) * self.single
            ahead.append(_normalized(emission * now))
        for emission in emissions[:0:-1]:
            after = emission * behind[-1]
            behind.append(_normalized(self.pairs @ after + self.backoff * (self.single @ after)))
        found = [_normalized(f * b) for f, b in zip(ahead[1:], behind[::-1], strict=False)]
        return np.array(found).reshape(len(emissions), len(self.single))

    @property
    def _edge(self) -> Shares:
        return np.eye(1, len(self.single), len(self.single) - 1)[0]


def _normalized(values: Shares) -> Shares:
    return values / values.sum()
