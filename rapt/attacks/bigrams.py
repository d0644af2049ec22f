"""A smoothed bigram model of public text, and the likeliest originals of a text by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]
# Of bigrams in a beam, beside the reader's own scores.
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)


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


@dataclass(frozen=True, eq=False)
class Beam:
    """Finds the likeliest path through the candidates of all places.

    It maximizes Σ_i log q_i(w_i) + λ·Σ_i log P(w_i|w_{i−1})/P(w_i), with q_i a reader's
    probabilities at place i and P a bigram model. The reader knows context, so that λ is below 1.
    Among the candidates the maximum is exact (Viterbi, 1967).

    Attributes:
        bigrams: P, over S states.
        weight: λ.
    """

    bigrams: Bigrams
    weight: float

    def __call__(self, places: Iterable[tuple[Rows, Shares]]) -> list[int]:
        """Return the state of each place of a text, given its candidates and their log q_i."""
        edge = np.array([len(self.bigrams.single) - 1])
        before, totals, steps = edge, np.zeros(1), []
        for states, scores in (*places, (edge, np.zeros(1))):
            paths = totals[:, None] + self.weight * self.bigrams.log_ratios(before, states)
            best = paths.argmax(axis=0)
            steps.append((before, best))
            before, totals = states, paths.max(axis=0) + scores
        found, at = [], 0
        for states, best in reversed(steps):
            at = best[at]
            found.append(int(states[at]))
        return found[-2::-1]


def _normalized(values: Shares) -> Shares:
    return values / values.sum()
