"""Distinguishing: of which of two texts is a release, where the attacker chose the texts.

No guarantee speaks of an average: it bounds this, for every pair of texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf, tanh
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.released import Released
from rapt.privacy.streams import stream

Floats = NDArray[np.float64]
Pair = tuple[PreparedText, PreparedText]
ERROR = 0.05 / 4  # of each of four ends: the interval of a difference of two shares is of 95 %
RARE = 0.5  # counts of a word that was not seen


class Distinguished(NamedTuple):
    """How well an attacker tells the releases of two texts apart.

    Attributes:
        advantage: P[says the first | it is] - P[says the first | it is the second]. Of a coin it is
            0, and 1 of an attacker who is always right.
        low: of its interval, at 95 % (Clopper and Pearson, 1934).
        high: likewise.
        loss: the most that a release can tell, in nats, by the guarantee; inf: no bound.
        allowed: the largest advantage that any attacker can have, by the guarantee.
        draws: releases of each text on which it is measured.
    """

    advantage: float
    low: float
    high: float
    loss: float
    allowed: float
    draws: int


def distinguish(
    privatizer: AnyPrivatizer[Any], one: PreparedText, other: PreparedText, draws: int, seed: int
) -> Distinguished:
    """Release each of two texts anew and anew, and tell the releases apart.

    The attacker counts the words of a third of the releases, weighs what he sees by the second, and
    is judged by the last.

    Args:
        privatizer: the mechanism at one η.
        one: a text.
        other: another one.
        draws: releases of each text.
        seed: of the releases.
    """
    pair = (one, other)
    released = [
        list(
            privatizer.release(
                replace(text, stream=partial(stream, seed, "distinguish", side, number))
                for number in range(draws)
            )
        )
        for side, text in enumerate(pair)
    ]
    counted, weighed, judged = (
        [some[draws * part // 3 : draws * (part + 1) // 3] for some in released]
        for part in range(3)
    )
    seen = partial(_seen, privatizer, pair, _ratios(counted))
    says = _weighed(*map(seen, weighed))
    right, wrong = (says(seen(some)) for some in judged)
    ends = [_interval(int(found.sum()), len(found)) for found in (right, wrong)]
    loss, delta = privatizer.loss_between(one, other)
    return Distinguished(
        float(right.mean() - wrong.mean()),
        ends[0][0] - ends[1][1],
        ends[0][1] - ends[1][0],
        loss,
        allowed(loss, delta),
        len(judged[0]),
    )


def allowed(loss: float, delta: float = 0.0) -> float:
    """Return the largest advantage under (ε, δ): (e^ε - 1 + 2δ) / (e^ε + 1) (Kairouz, 2015)."""
    if loss == inf:
        return 1.0
    return min(1.0, tanh(loss / 2) + delta * (1 - tanh(loss / 2)))


Ratios = Callable[[Released], float]


def _ratios(counted: Sequence[Sequence[Released]]) -> Ratios:
    """Count what stands at each position, and return the log ratio of a release's positions.

    Texts that are released word for word have a word at each; of a new text the positions mean
    nothing, and its words are counted together.
    """
    is_aligned = counted[0][0].aligned

    def marked(release: Released) -> list[tuple[int, str]]:
        return [(at if is_aligned else 0, word) for at, word in enumerate(release.words)]

    one, other = (Counter(chain.from_iterable(map(marked, some))) for some in counted)

    def ratio(release: Released) -> float:
        return sum(
            float(np.log((one[mark] + RARE) / (other[mark] + RARE))) for mark in marked(release)
        )

    return ratio


def _seen(
    privatizer: AnyPrivatizer[Any], pair: Pair, ratio: Ratios, releases: Sequence[Released]
) -> Floats:
    """What an attacker sees of each release, (n, 3): words, length, and how near it is."""
    near = _nearness(privatizer, pair)
    return np.array([[ratio(some), len(some.words), near(some)] for some in releases])


def _nearness(privatizer: AnyPrivatizer[Any], pair: Pair) -> Callable[[Released], float]:
    """How much nearer a release is to the first text: by its noise, or as if it had such noise."""
    mechanism, eta, table = privatizer.mechanism, privatizer.eta, privatizer.table
    if has_vectors := privatizer.releases.has_vectors:
        one, other = privatizer.originals(pair)
    else:
        one, other = (table.embed(list(text.words)) for text in pair)

    def near(release: Released) -> float:
        vectors = release.vectors if has_vectors else table.embed(release.words)
        assert vectors is not None
        if not len(vectors) == len(one) == len(other):
            return 0.0
        seen = vectors.astype(np.float64)
        if has_vectors and mechanism.has_density:
            return float(
                mechanism.log_density(one, seen, eta).sum()
                - mechanism.log_density(other, seen, eta).sum()
            )
        apart = [np.linalg.norm(seen - text, axis=1).sum() for text in (one, other)]
        return float(apart[1] - apart[0])

    return near


def _weighed(one: Floats, other: Floats) -> Callable[[Floats], NDArray[np.bool_]]:
    """Fit what says of which text a release is, True: of the first."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labels = np.repeat([1, 0], [len(one), len(other)])
    found = make_pipeline(StandardScaler(), LogisticRegression(C=1e3, max_iter=1000))
    found.fit(np.concatenate([one, other]), labels)
    return lambda seen: np.asarray(found.predict(seen) == 1)


def _interval(count: int, n: int) -> tuple[float, float]:
    """The interval of a share (Clopper and Pearson, 1934)."""
    low = float(beta.ppf(ERROR, count, n - count + 1)) if count else 0.0
    high = float(beta.isf(ERROR, count + 1, n - count)) if count < n else 1.0
    return low, high
