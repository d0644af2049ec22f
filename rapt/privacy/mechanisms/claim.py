"""Claims: what a mechanism promises, on which conditions, and where that is proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from rapt.privacy.mechanisms.base import Distances, Space, Vectors

TABLE = "The embedding table is public, and so is its choice: it must not depend on the texts."
TAGS = "The category of each word is released as it is: the guarantee holds given the tags."
REAL = "The law holds for real numbers: what noise of 53 bits cannot reach never occurs."
GRID = (
    "The law holds for real numbers. A sum of floating-point numbers betrays its terms in its last "
    "bits. Rounding to the grid removes these, not what a generator cannot reach in the tails."
)
D_X, NO_GUARANTEE = "d_X-privacy", "no guarantee"
# Domains of claims.
ONE_WORD, TEXTS = "texts w, w' that differ in one word", "texts w, w'"
PROOFS = "docs/proofs.md"


def euclidean(one: Vectors, other: Vectors) -> Distances:
    """Compute ‖one − other‖ row by row, float64 (n,)."""
    return np.linalg.norm(np.asarray(one, np.float64) - other, axis=1)


@dataclass(frozen=True)
class Metric:
    """A distance of inputs.

    Attributes:
        name: in words; the mechanism's parameters may stand in braces.
        between: from a mechanism, its space and two arrays of vectors (n, d), float64 (n,);
            infinite where nothing is promised.
        largest: from the dimension of the vectors the most that it can be; None: it has no bound.
    """

    name: str
    between: Callable[[Any, Space, Vectors, Vectors], Distances]
    largest: Callable[[int], float] | None = None


EUCLIDEAN = Metric(
    "Euclidean distance of word embeddings", lambda _, __, one, other: euclidean(one, other)
)
UNBOUNDED = Metric(
    "none: no bound is known",
    lambda _, __, one, other: np.where(euclidean(one, other) > 0, inf, 0.0),
)


def of_texts(_: object, __: Space, one: Vectors, other: Vectors) -> Distances:
    """1 between texts whose vectors differ."""
    return (euclidean(one, other) > 0).astype(np.float64)


def _root(_: object, space: Space, one: Vectors, other: Vectors) -> Distances:
    """√d: vectors of length C are up to 2·C·√d apart in the L1 norm."""
    return of_texts(_, space, one, other) * np.sqrt(one.shape[1])


ANY_TEXTS = Metric("1 between any two texts", of_texts, lambda _: 1.0)
ROOT = Metric("the square root of the dimension, between any two texts", _root, sqrt)


@dataclass(frozen=True)
class Claim:
    """The promise of a mechanism M about any two of its inputs; without a proof there is none.

    Attributes:
        metric: the distance d of two inputs.
        proof: the lemmas of docs/proofs.md that it rests on, or addresses of other pages; empty:
            it is unproven.
        domain: the inputs w, w' that it speaks of.
        unit: what M releases at a time; of a text, the mean of its vectors.
        loss: the privacy map, from η and d to the most that log P[M(w)=y] can change, in nats.
        formula: the same as text, of {eta}.
        delta: for each candidate, how far what is drawn may be from the law, in total variation.
        approximate: whether delta is part of the law itself, which then is of (ε, δ).
        conditions: what has to be true beside it, in sentences.
        published: the metric of the published claim, where that is another one and fails.
        caveat: why that one fails.
    """

    metric: Metric = UNBOUNDED
    proof: tuple[str, ...] = ()
    domain: str = "words w, w'"
    unit: Literal["one word", "one text"] = "one word"
    loss: Callable[[float, float], float] = lambda eta, distance: eta * distance
    formula: str = "{eta} * d(w, w')"
    delta: float = 0.0
    approximate: bool = False
    conditions: tuple[str, ...] = (TABLE,)
    published: Metric | None = None
    caveat: str | None = None

    def within_categories(self) -> Claim:
        """The same given the tags, for words of one category (lemma `categories`)."""
        if TAGS in self.conditions:
            return self
        return replace(
            self,
            proof=self.proof and (*self.proof, "categories"),
            domain=f"{self.domain} of one category",
            conditions=(*self.conditions, TAGS),
        )

    def law(self, eta: str) -> str:
        """Return the bound as a formula."""
        if not self.proof:
            return NO_GUARANTEE
        bound = self.formula.format(eta=eta)
        if self.approximate:
            return (
                f"P[M(w) in S] <= exp({bound}) * P[M(w') in S] + {self.delta:g} for all "
                f"{self.domain} and all S"
            )
        return f"P[M(w)=y] <= exp({bound}) * P[M(w')=y] for all {self.domain} and all y"

    @property
    def kind(self) -> str:
        """The name of what it promises."""
        if not self.proof:
            return NO_GUARANTEE
        return "(epsilon, delta)-differential privacy" if self.approximate else D_X

    @property
    def places(self) -> list[str]:
        """Where it is proven."""
        return [place if "/" in place else f"{PROOFS}#{place}" for place in self.proof]

    def at(self, eta: float, metric: str, candidates: int) -> Bound:
        """Return its bound for one unit.

        Args:
            eta: the privacy parameter.
            metric: the name of its metric for the mechanism's parameters.
            candidates: the number of words that the unit may become.
        """
        if not self.proof:
            return NO_BOUND
        return Bound(
            metric,
            lambda distance: self.loss(eta, distance),
            candidates * self.delta,
            frozenset(self.conditions),
        )


TextClaim = partial(Claim, domain=TEXTS, unit="one text")


@dataclass(frozen=True)
class Bound:
    """The most that a chain of releases may lose, for a pair of texts (as OpenDP's privacy maps).

    Bounds of independent releases add up if they are of one metric, over one table. `n * bound` is
    for n words of a text, or n releases of one.

    Attributes:
        metric: its name; None: nothing is released.
        loss: from the distance of each pair of words to nats.
        delta: how far what is drawn may be from the law, in total variation.
        conditions: all those that it rests on.
        proven: False: there is no bound.
    """

    metric: str | None
    loss: Callable[[float], float]
    delta: float = 0.0
    conditions: frozenset[str] = frozenset()
    proven: bool = True

    def __add__(self, other: Bound) -> Bound:
        """Bound both releases together: a text's words, its releases, several methods."""
        metrics = {self.metric, other.metric} - {None}
        if len(metrics) > 1 or not (self.proven and other.proven):
            return NO_BOUND
        return Bound(
            metrics.pop() if metrics else None,
            lambda distance: self.loss(distance) + other.loss(distance),
            min(1.0, self.delta + other.delta),
            self.conditions | other.conditions,
        )

    def __rmul__(self, n: int) -> Bound:
        """Bound n of it: `self` added n times."""
        if n == 0:  # nothing is lost, even if no bound is known
            return NOTHING
        return replace(
            self, loss=lambda distance: n * self.loss(distance), delta=min(1.0, n * self.delta)
        )


NOTHING = Bound(None, lambda distance: 0.0)
NO_BOUND = Bound(None, lambda distance: inf, delta=1.0, proven=False)
