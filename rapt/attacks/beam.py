"""Decoding of a text's words together, by their own scores and by which words follow each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rapt.attacks.bigrams import Bigrams, Rows, Shares

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)


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
