"""The optimal mechanism of a small vocabulary, by linear programming."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp

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
)
from rapt.privacy.mechanisms.claim import Claim, Metric, euclidean
from rapt.utils.errors import RaptError

MOST = 60  # words: V³ constraints
FLOOR = 1e-6  # least probability of an outcome
ONE = 1 << 52  # probabilities are multiples of 1/ONE: a uniform double draws them exactly
SLACK = 1e-6  # of η, for the rounding to multiples


def _of_candidates(_: Optimal, space: Space, one: Vectors, other: Vectors) -> Distances:
    return euclidean(space.vectors[space.rows(one)], space.vectors[space.rows(other)])


@dataclass(frozen=True)
class Optimal(WordMechanism):
    """The least mean distance d(w, M(w)) that η·d(w, w') allows, all words being alike.

    A word that is no candidate is taken for the nearest one.
    """

    name = "imola"
    source = "Imola et al., UAI 2022; Bordenabe et al., 2014"
    claim = Claim(
        Metric("Euclidean distance of word embeddings (of the nearest candidates)", _of_candidates),
        ("linear-program",),
    )

    def sampler(self, space: Space, eta: float) -> Sampler:
        """Draw from the row of the word.

        Raises:
            RaptError: the space has too many words.
        """
        if len(space.vectors) > MOST:
            raise RaptError(
                f"mechanism imola: got {len(space.vectors)} words in a group, expected at most "
                f"{MOST}."
            )
        search = space.search()
        upto = np.cumsum(optimal_channel(space, eta), axis=1)

        def release(vectors: Vectors, draws: Draws) -> Rows:
            # A uniform double is a multiple of 2⁻⁵³, so its first 52 bits are uniform below ONE.
            goal = (draws[:, 0] * ONE).astype(np.int64)
            return (upto[search(vectors)] <= goal[:, None]).sum(axis=1)

        return release


@lru_cache(maxsize=4)
def optimal_channel(space: Space, eta: float) -> NDArray[np.int64]:
    """P[M(w)=y]·2⁵², int64 (V, V), whose rows sum to 2⁵² and which is private without rounding.

    Raises:
        RaptError: the program could not be solved to sufficient accuracy.
    """
    vectors = np.asarray(space.vectors, np.float64)
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    safe = eta * (1 - SLACK)
    channel = _repaired(_solved(distances, safe), distances, safe)
    weights = np.floor(channel * ONE).astype(np.int64)
    weights[np.arange(len(weights)), weights.argmax(axis=1)] += ONE - weights.sum(axis=1)
    if not is_private(weights, distances, eta):
        raise RaptError(
            f"eta: got {eta:g}, expected one at which the rounded probabilities are private. "
            "Choose a smaller one."
        )
    return weights


def _solved(distances: NDArray[np.float64], eta: float) -> NDArray[np.float64]:
    """Minimize Σ p[x,y]·d(x,y) over p[x,y] ≤ e^(η·d(x,x'))·p[x',y], Σ_y p[x,y] = 1, p ≥ `FLOOR`.

    Pairs that `FLOOR` alone keeps within their bound have no row: such factors break the solver.
    """
    from scipy.optimize import linprog  # 41 MiB that no other mechanism needs
    from scipy.sparse import coo_array, eye_array, kron

    size = len(distances)
    one, other = np.nonzero((eta * distances < -np.log(FLOOR)) & ~np.eye(size, dtype=bool))
    half = np.exp(eta * distances[one, other] / 2)
    pairs = np.tile(np.arange(len(one)), 2)
    difference = coo_array(
        (np.concatenate([1 / half, -half]), (pairs, np.concatenate([one, other]))),
        shape=(len(one), size),
    )
    solution = linprog(
        distances.ravel(),
        A_ub=kron(difference, eye_array(size), "csr"),
        b_ub=np.zeros(len(one) * size),
        A_eq=kron(eye_array(size), np.ones((1, size)), "csr"),
        b_eq=np.ones(size),
        bounds=(FLOOR, 1),
        method="highs-ds" if size <= 30 else "highs-ipm",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        raise RaptError(
            f"eta: got {eta:g}, expected one at which the linear program has a solution. "
            f"Choose another. The solver: {solution.message}"
        )
    return solution.x.reshape(size, size).clip(0)


def _repaired(
    channel: NDArray[np.float64], distances: NDArray[np.float64], eta: float
) -> NDArray[np.float64]:
    """The solution made private in spite of the solver's tolerance.

    Each column's lower envelope under the constraints satisfies them. One factor for all rows and
    the same addition to each, but for the missing sums, keep them satisfied.
    """
    size = len(channel)
    envelope = (np.exp(eta * distances)[:, :, None] * channel[None]).min(axis=1)
    envelope /= envelope.sum(axis=1).max()
    missing = 1 - envelope.sum(axis=1).min()
    between = distances[distances > 0].min(initial=np.inf)  # rows of duplicates are equal
    mix = max(SLACK, 1.1 * missing / np.expm1(eta * between))
    left = (1 - mix) * envelope
    return left + (1 - left.sum(axis=1, keepdims=True)) / size


def is_private(weights: NDArray[np.int64], distances: NDArray[np.float64], eta: float) -> bool:
    """Whether n[x,y] ≤ e^(η·d(x,x'))·n[x',y] for all x, x', y: in integers, without rounding."""
    if (weights <= 0).any():
        return False
    for one, other in zip(*np.nonzero(~np.eye(len(weights), dtype=bool)), strict=True):
        loss = eta * distances[one, other]
        if loss > 37:  # more than any ratio of positive weights below 2⁵²
            continue
        if loss == 0:
            if (weights[one] != weights[other]).any():
                return False
            continue
        factor = Fraction(exp(loss)) * (1 - Fraction(1, 1 << 40))  # below e^loss
        pairs = zip(weights[one].tolist(), weights[other].tolist(), strict=True)
        if any(p * factor.denominator > q * factor.numerator for p, q in pairs):
            return False
    return True
