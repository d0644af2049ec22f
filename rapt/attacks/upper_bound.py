"""Upper bounds on what an attacker recovers who reads one word at a time.

The best such attacker recovers the Bayes vulnerability Σ_y max_w P(y|w)·π(w) (Chatzikokolakis et
al., 2020), with the victims' own word frequencies as π. P(y|w) is known from draws alone, and a
maximum over draws is biased upwards. Each function here returns more than the vulnerability.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Occurrence, Public
from rapt.privacy.mechanisms import Space
from rapt.privacy.mechanisms.noise import NoiseMechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.streams import stream

DRAWS = 10_000
AT_ONCE = 1000  # draws whose distances to all words are in memory together
SURE = 3.09  # standard errors: a one-sided 99.9 % limit


def upper_bound(public: Public, words: Mapping[Occurrence, int]) -> float:
    """Return the least bound that is known.

    Args:
        public: the public knowledge about the mechanism, with its channel.
        words: how often the victims have each protected word.
    """
    found = [by_channel(public, words)]
    how = public.privatizer
    if how and words and isinstance(how.mechanism, NoiseMechanism) and np.isfinite(how.eta):
        found.append(by_noise(of_words(how), words))
    return min(found)


def by_channel(public: Public, words: Mapping[Occurrence, int]) -> float:
    """Bound by the channel's draws; words that the channel does not know count as recovered.

    These are also words that the victims' texts tag as of another group than the table does.
    """
    assert public.channel
    rows = public.table.rows(word for word, _ in words)
    groups = np.array([group for _, group in words], np.int64)
    number = np.array([*words.values()], np.int64)
    known = (rows >= 0) & (public.groups[rows] == groups)
    every = np.bincount(rows[known], number[known], len(public.groups))
    counts = every[public.channel.rows]
    best = csr_array(diags_array(counts.astype(np.float64)) @ public.channel.matrix).max(axis=0)
    return float((best.sum() + number.sum() - counts.sum()) / max(1, number.sum()))


def by_noise(privatizer: Privatizer, words: Mapping[Occurrence, int]) -> float:
    """Bound by the noisy vectors, for mechanisms that choose the word by the noisy vector alone.

    Whoever sees the vector x and the word's group recovers at least as much. Of that attacker the
    vulnerability is the mean of max_w P(w|x) over words and noise, as the density of x is known:
    exp(−η‖x − E(w)‖). So no word is left out and no maximum is biased. The limit holds at 99.9 %.
    The slack is what the vector tells and the word nearest to it does not.
    """
    table, mechanism, eta = privatizer.table, privatizer.mechanism, privatizer.eta
    assert isinstance(mechanism, NoiseMechanism)
    spaces = [*privatizer.spaces(), Space(table.vectors, table.frequency)]
    rng, total = stream(0, "upper bound"), sum(words.values())
    mean, variance = 0.0, 0.0
    for group in sorted({group for _, group in words}):
        own = {word: count for (word, of), count in words.items() if of == group}
        share = sum(own.values()) / total
        prior = np.array([*own.values()]) / sum(own.values())
        embedded = mechanism.standard(spaces[group], table.embed([*own]))
        vectors = np.asarray(embedded, np.float64)
        n = max(2, round(DRAWS * share))
        noise = mechanism.draw(rng, n, table.dimension)[:, : table.dimension]
        noisy = vectors[rng.choice(len(prior), n, p=prior)] + noise / eta
        surest = np.concatenate(
            [
                _posterior(noisy[start : start + AT_ONCE], vectors, prior, eta).max(axis=1)
                for start in range(0, n, AT_ONCE)
            ]
        )
        mean += share * surest.mean()
        variance += share**2 * surest.var(ddof=1) / n
    return float(min(1.0, mean + SURE * np.sqrt(variance)))


def _posterior(
    noisy: NDArray[np.float64], vectors: NDArray[np.float64], prior: NDArray[np.float64], eta: float
) -> NDArray[np.float64]:
    """Return P(w|x) of each of n noisy vectors, (n, words)."""
    from scipy.special import softmax
    from sklearn.metrics.pairwise import euclidean_distances

    with threadpool_limits(1):  # so that the figures do not depend on the cores
        return np.asarray(
            softmax(np.log(prior) - eta * euclidean_distances(noisy, vectors), axis=1)
        )
