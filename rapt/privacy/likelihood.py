"""P(y|w) of one released word y, for every word w of its group: a column of the channel.

`rapt.privacy.channel` draws from every word, which takes minutes. Here one word is enough.

Noise and nearest word: y is released where the noisy vector x lies in the cell of y, that is where
y is nearest. A draw x around y stands for any other word w by the ratio of the two densities:

    P(y|w) = E[ 1{x in the cell of y} · exp(−η·(‖x − E(w)‖ − ‖x − E(y)‖)) ],  x = E(y) + z/η.

In the cell ‖x − E(w)‖ ≥ ‖x − E(y)‖, so the ratio r is at most 1. Hence E[r²] ≤ E[r] = P(y|w). The
variance is at most that of as many draws from w itself, and the same draws serve every w.

The exponential mechanism has P(y|w) in closed form, but for the sum of its weights over all words.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms import T2T
from rapt.privacy.mechanisms.exponential import Exponential
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.posterior import prior_of
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError
from rapt.utils.memmap import take

KEPT = 200  # draws in the cell of y are enough
MOST = 2048  # draws at most
AT_ONCE = 256


@lru_cache(maxsize=1024)  # a text repeats its words
def posterior(privatizer: Privatizer, group: int, word: str) -> NDArray[np.float64]:
    """P(w|y) for the words w of `rows_of(group)`, float64 (n,), by their public frequency.

    All zero if no draw shows how y comes about: the word is too rare a result to be judged.

    Args:
        privatizer: of the release.
        group: of the released word.
        word: y, a word of the group.

    Raises:
        RaptError: the mechanism adds neither spherical noise nor weighs words by their distance.
    """
    rows = privatizer.rows_of(group)
    joint = likelihood(privatizer, group, word) * prior_of(privatizer.table.frequency)[rows]
    return joint / (joint.sum() or 1.0)


def likelihood(privatizer: Privatizer, group: int, word: str) -> NDArray[np.float64]:
    """P(y|w) for the words w of `rows_of(group)`, float64 (n,); see `posterior`."""
    rows = privatizer.rows_of(group)
    at = int(np.searchsorted(rows, privatizer.table.rows([word])[0]))
    if isinstance(privatizer.mechanism, T2T):
        vectors = take(privatizer.table.vectors, rows)
        return _of_noise(vectors, at, privatizer.eta, stream(0, "likelihood", word))
    sampler = privatizer.sampler(group)
    if not isinstance(sampler, Exponential):
        raise RaptError(
            f"mechanism: got {privatizer.mechanism.name}, expected t2t, pct2t, santext or tem."
        )
    return sampler.likelihood(at)


def _of_noise(
    vectors: NDArray[np.float32], at: int, eta: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    squares = np.einsum("vd,vd->v", vectors, vectors)
    total, kept, draws = np.zeros(len(vectors)), 0, 0
    while kept < KEPT and draws < MOST:
        x = vectors[at] + spherical_noise(rng, AT_ONCE, vectors.shape[1]).astype(np.float32) / eta
        apart = squares - 2 * (x @ vectors.T)  # ‖x − E‖² but for ‖x‖², which ranks alike
        inside = apart.argmin(axis=1) == at
        lengths = np.einsum("nd,nd->n", x[inside], x[inside])[:, None]
        distances = np.sqrt(np.maximum(apart[inside] + lengths, 0))
        total += np.exp(-eta * (distances - distances[:, [at]])).sum(axis=0)
        kept, draws = kept + int(inside.sum()), draws + AT_ONCE
    return total / draws
