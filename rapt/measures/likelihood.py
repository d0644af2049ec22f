"""P(y|w) of one released word y, for every word w of its group: a column of the channel.

`rapt.privacy.channel` draws from every word, which takes minutes. Here one word is enough.

Noise and nearest word: y is released where the noisy vector x lies in the cell of y, that is where
y is nearest. With f the density of the noise, draws x of a density q stand for every word w:

    P(y|w) = E[ 1{x in the cell of y} · f(x − E(w)) / q(x) ].

Half of the draws are around y, half midway between y and words drawn by public frequency. Else a
frequent word far from y rests on few draws. q is the mixture of all (Veach and Guibas, 1995). In
the cell f(x − E(w)) ≤ f(x − E(y)) ≤ 2·q(x), so the ratio r is at most 2. Hence E[r²] ≤ 2·E[r]. So
the variance is at most twice that of as many draws from w itself. The same draws serve every w.

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

KEPT = 800  # draws in the cell of y are enough
MOST = 8192  # draws at most
AT_ONCE = 512
HUGE = 80.0  # exponent that float32 still holds; beyond it a draw weighs nothing
FEW = slice(None, None, 8)  # words that show of most draws outside the cell that they are


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
        frequency = prior_of(privatizer.table.frequency)[rows]
        return _of_noise(vectors, frequency, at, privatizer.eta, stream(0, "likelihood", word))
    sampler = privatizer.sampler(group)
    if not isinstance(sampler, Exponential):
        raise RaptError(
            f"mechanism: got {privatizer.mechanism.name}, expected t2t, pct2t, santext or tem."
        )
    return sampler.likelihood(at)


def _of_noise(
    vectors: NDArray[np.float32],
    frequency: NDArray[np.float64],
    at: int,
    eta: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    squares = np.einsum("vd,vd->v", vectors, vectors)
    total, kept, draws = np.zeros(len(vectors)), 0, 0
    while kept < KEPT and draws < MOST:
        words = rng.choice(len(vectors), AT_ONCE // 2, p=frequency / frequency.sum())
        ends = np.concatenate([words, np.full(AT_ONCE // 2, at)])
        middle = (vectors[at] + vectors[ends]) / 2
        x = middle + spherical_noise(rng, AT_ONCE, vectors.shape[1]).astype(np.float32) / eta
        # ‖x − E‖² but for ‖x‖², which ranks alike.
        few = (squares[FEW] - 2 * (x @ vectors[FEW].T)).min(axis=1)
        x = x[squares[at] - 2 * (x @ vectors[at]) <= few + 1e-3]
        apart = squares - 2 * (x @ vectors.T)
        inside = apart.argmin(axis=1) == at
        lengths = np.einsum("nd,nd->n", x[inside], x[inside])[:, None]
        apart = np.maximum(apart[inside] + lengths, 0)
        # ‖x − (a + b)/2‖² = (‖x − a‖² + ‖x − b‖²)/2 − ‖a − b‖²/4
        between = squares[ends] + squares[at] - 2 * (vectors[ends] @ vectors[at])
        midway = np.maximum((apart[:, ends] + apart[:, [at]]) / 2 - between / 4, 0)
        own = np.sqrt(apart[:, [at]])  # densities are held against that of y
        nearer = np.minimum(eta * (own - np.sqrt(midway)), HUGE)
        mixture = np.exp(nearer).mean(axis=1, keepdims=True)
        total += (np.exp(-eta * (np.sqrt(apart) - own)) / mixture).sum(axis=0)
        kept, draws = kept + int(inside.sum()), draws + AT_ONCE
    return total / draws
