"""The exponential mechanism over a finite vocabulary: P(y|w) in closed form, no noise vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import (
    Distances,
    Draws,
    Rows,
    Sampler,
    Space,
    Vectors,
    WordMechanism,
    check,
    parameter,
)
from rapt.privacy.mechanisms.claim import EUCLIDEAN, Claim, Metric, euclidean

ENTRIES = 1 << 21  # distances held at a time: 16 MiB
SUMMED = 1000  # candidates that stand for all in an estimate of the sum of weights
# Where rounding could decide, the words are weighed again, one by one and in one order.
ROUNDING = 1e-9
# How far rounding takes the law, for each candidate: lemma `finite-precision`.
STEP = 2.0**-51

Weights = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Exponential:
    """A word y with probability proportional to weight(‖E(w) − E(y)‖)."""

    def __init__(self, vectors: Vectors, weight: Weights) -> None:
        """Take the candidates (V, d) and the weight of a distance."""
        self._vectors = np.asarray(vectors, np.float64)
        self._squares = np.einsum("vd,vd->v", self._vectors, self._vectors)
        self._weight = weight

    def __call__(self, vectors: Vectors, draws: Draws) -> Rows:
        """The row that each vector (n, d) becomes, by the first of its uniform numbers (n, k).

        Equal vectors share a distribution function, as those of a word that stands in many places.
        """
        places: dict[bytes, list[int]] = defaultdict(list)
        for i, vector in enumerate(vectors):
            places[vector.tobytes()].append(i)
        rows, distinct = np.empty(len(vectors), np.int64), list(places.values())
        for part in _parts(len(distinct), len(self._vectors)):
            alone = vectors[[at[0] for at in distinct[part]]]
            masses = np.cumsum(self._weight(self._distances(alone)), axis=1)
            for at, mass, vector in zip(distinct[part], masses, alone, strict=True):
                rows[at] = self._inverse(mass, vector, draws[at, 0])
        return rows

    def likelihood(self, row: int) -> NDArray[np.float64]:
        """P(row | w) of each candidate w, float64 (V,), by an estimate of its sum of weights."""
        weight = self._relative(euclidean(self._vectors, self._vectors[row]))
        return np.asarray(np.where(np.arange(len(weight)) == row, 1, weight) / self._sums)

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        """The sum of the weights around each candidate: its own, and the others' by a sample."""
        size = len(self._vectors)
        some = np.sort(np.random.default_rng(0).permutation(size)[:SUMMED])
        total = np.zeros(size)
        for at in _parts(len(some), size):
            weights = self._relative(self._distances(self._vectors[some[at]]))
            weights[np.arange(len(weights)), some[at]] = 0
            total += weights.sum(axis=0)
        drawn = len(some) - np.isin(np.arange(size), some)
        return 1 + (size - 1) * total / np.maximum(drawn, 1)

    def _relative(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weight of each distance against that of 0, the word itself."""
        return self._weight(np.stack([np.zeros_like(distance), distance], axis=-1))[..., 1]

    def _inverse(
        self, mass: NDArray[np.float64], vector: NDArray[np.floating], uniform: Draws
    ) -> Rows:
        """The rows (n,) at which a vector's distribution function (V,) passes uniform numbers."""
        last = len(mass) - 1
        goal = uniform * mass[-1]
        rows = np.searchsorted(mass, goal, side="right").clip(max=last)
        above = mass[rows] - goal
        below = goal - np.where(rows > 0, mass[rows - 1], -np.inf)
        close = np.minimum(above, below) <= ROUNDING * mass[-1]
        if close.any():
            exact = np.cumsum(self._weight(euclidean(self._vectors, vector.astype(np.float64))))
            rows[close] = np.searchsorted(exact, uniform[close] * exact[-1], side="right")
        return rows.clip(max=last)

    def _distances(self, vectors: Vectors) -> NDArray[np.float64]:
        """‖x − E(y)‖, float64 (n, V), small ones without the cancellation of the product."""
        x = np.asarray(vectors, np.float64)
        scale = np.einsum("nd,nd->n", x, x)[:, None] + self._squares
        squares = scale - 2 * (x @ self._vectors.T)
        at, row = np.nonzero(squares <= ROUNDING * scale)
        squares[at, row] = euclidean(x[at], self._vectors[row]) ** 2
        return np.sqrt(squares)


def decay(rate: float, beyond: float = np.inf) -> Weights:
    """exp(−rate·min(distance, beyond)), scaled so that the nearest candidate never underflows."""

    def weight(distance: NDArray[np.float64]) -> NDArray[np.float64]:
        short = np.minimum(distance, beyond)
        return np.exp(-rate * (short - short.min(axis=-1, keepdims=True)))

    return weight


def _parts(n: int, size: int) -> Iterator[slice]:
    step = max(1, ENTRIES // size)
    for start in range(0, n, step):
        yield slice(start, start + step)


@dataclass(frozen=True)
class SanText(WordMechanism):
    """P(y|w) ∝ exp(−½·η·d(w, y)): half for the weights, half for their sum."""

    name = "santext"
    source = "Yue et al., 2021"
    claim = Claim(EUCLIDEAN, ("exponential", "finite-precision"), delta=STEP)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The exponential mechanism over all candidates."""
        return Exponential(space.vectors, decay(eta / 2))


@dataclass(frozen=True)
class Tem(SanText):
    """The truncated exponential mechanism: P(y|w) ∝ exp(−½·η·min(d(w, y), γ)).

    The words beyond γ share the outcome ⊥, of score −γ + 2·ln|W∖L|/η, and are then drawn alike:
    each so has the weight of distance γ. γ = 2/η·ln((1 − β)·(V − 1)/β) leaves them at most β.
    """

    name = "tem"
    source = "Carvalho et al., 2021, arXiv 2107.07928"
    claim = Claim(EUCLIDEAN, ("exponential", "truncation", "finite-precision"), delta=STEP)
    beta: float = parameter(0.001, "β, the most probability of a word beyond the truncation")

    def __post_init__(self) -> None:
        check("beta", self.beta, "a number above 0 and below 1", 0 < self.beta < 1)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The exponential mechanism with the truncated distance, which is a metric too."""
        odds = (1 - self.beta) * (len(space.vectors) - 1) / self.beta
        gamma = max(0.0, 2 / eta * float(np.log(odds)))
        return Exponential(space.vectors, decay(eta / 2, gamma))


def _of_rare(made: SanTextPlus, space: Space, one: Vectors, other: Vectors) -> Distances:
    is_rare = made.is_rare(space)
    both = is_rare[space.rows(one)] & is_rare[space.rows(other)]
    return np.where(both, euclidean(one, other), np.inf)


@dataclass(frozen=True)
class SanTextPlus(WordMechanism):
    """SanText over the rare words; a frequent word becomes one of them with probability p.

    A word that is no candidate is taken for a rare one.
    """

    name = "santext-plus"
    source = "Yue et al., 2021"
    claim = Claim(
        Metric("Euclidean distance of the embeddings of rare words ({rare:g} of all)", _of_rare),
        ("exponential", "finite-precision"),
        domain="rare words w, w'",
        delta=STEP,
        published=EUCLIDEAN,
        caveat="Frequent words are released as they are with probability 1 - p: a frequent word in "
        "the release is the original. d_X-privacy holds among the rare words alone.",
    )
    uniforms = 2
    rare: float = parameter(0.5, "share of the candidates, least frequent in public, protected")
    p: float = parameter(0.3, "probability that a frequent word is replaced")

    def __post_init__(self) -> None:
        check("rare", self.rare, "a number above 0 and below 1", 0 < self.rare < 1)
        check("p", self.p, "a number above 0 and at most 1", 0 < self.p <= 1)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The exponential mechanism over the rare candidates, past which frequent words slip."""
        is_rare = self.is_rare(space)
        rows, search = np.flatnonzero(is_rare), space.search()
        choose = Exponential(space.vectors[rows], decay(eta / 2))

        def release(vectors: Vectors, draws: Draws) -> Rows:
            own = search(vectors)
            frequent = (space.vectors[own] == vectors).all(axis=1) & ~is_rare[own]
            replaced = rows[choose(vectors, draws)]
            return np.where(frequent & (draws[:, 1] >= self.p), own, replaced)

        return release

    def is_rare(self, space: Space) -> NDArray[np.bool_]:
        """Whether each candidate is rare, (V,)."""
        size = len(space.frequency)
        is_rare = np.zeros(size, bool)
        order = np.argsort(space.frequency, kind="stable")
        is_rare[order[: max(1, int(self.rare * size))]] = True
        return is_rare


@lru_cache(maxsize=4)
def blocks(space: Space, size: int) -> NDArray[np.int64]:
    """The block of each candidate, int64 (V,): a word and its nearest among those left.

    Taken in the order of public frequency; a short last block joins the one before it.
    """
    vectors = np.asarray(space.vectors, np.float64)
    squares = np.einsum("vd,vd->v", vectors, vectors)
    block = np.full(len(vectors), -1)
    count = max(1, len(vectors) // size)
    order = iter(np.argsort(-space.frequency, kind="stable"))
    for number in range(count - 1):
        word = next(row for row in order if block[row] < 0)
        # ‖x − E‖² but for ‖x‖², which ranks alike.
        ranked = np.where(block < 0, squares - 2 * vectors @ vectors[word], np.inf)
        ranked[word] = -np.inf  # also before its duplicates
        block[np.argpartition(ranked, size - 1)[:size]] = number
    block[block < 0] = count - 1
    return block


def _of_words(_: CusText, space: Space, one: Vectors, other: Vectors) -> Distances:
    return (space.rows(one) != space.rows(other)).astype(np.float64)


def _of_block(made: CusText, space: Space, one: Vectors, other: Vectors) -> Distances:
    block = blocks(space, made.size)
    within = block[space.rows(one)] == block[space.rows(other)]
    return np.where(within, _of_words(made, space, one, other), np.inf)


@dataclass(frozen=True)
class CusText(WordMechanism):
    """The exponential mechanism within blocks of similar words, by distances scaled to [0, 1].

    A word that is no candidate is taken for the nearest one.
    """

    name = "custext"
    source = "Chen et al., 2023, arXiv 2207.01193"
    claim = Claim(
        Metric("1 between different words of one block of {size}, else infinite", _of_block),
        ("exponential", "finite-precision"),
        delta=STEP,
        published=Metric("1 between any different words", _of_words),
        caveat="The block of each word is released as it is: words of different blocks have no "
        "output in common. Within a block no two words differ by more than a factor exp(eta).",
    )
    size: int = parameter(20, "K, the number of words in a block")

    def __post_init__(self) -> None:
        check("size", self.size, "2 or more", self.size >= 2)

    def sampler(self, space: Space, eta: float) -> Sampler:
        """The exponential mechanism over the word's own block."""
        block, search = blocks(space, self.size), space.search()
        members = [np.flatnonzero(block == number) for number in range(block.max() + 1)]

        def weight(distance: NDArray[np.float64]) -> NDArray[np.float64]:
            low, high = (f(distance, axis=-1, keepdims=True) for f in (np.min, np.max))
            extent = np.maximum(high - low, np.finfo(float).tiny)  # of duplicates alone: 0
            return np.exp(-eta / 2 * (distance - low) / extent)

        def release(vectors: Vectors, draws: Draws) -> Rows:
            own = search(vectors)
            released = np.empty_like(own)
            for number in np.unique(block[own]):
                at = np.flatnonzero(block[own] == number)
                choose = Exponential(space.vectors[members[number]], weight)
                chosen = choose(space.vectors[own[at]], draws[at])
                released[at] = members[number][chosen]
            return released

        return release
