"""The laws of private federated tuning: what bounds an update, and which noise the sums get.

In each round some clients send how their weights have changed. Each update is scaled to at most the
norm S, and the server goes on by

    (sum of scaled updates + noise) / (clients of a round, on average)

All clients count alike, and the denominator is fixed: who drops out changes the sum by at most S.
The unit is a client with all its rows; neighbours differ in whether one of them takes part.

`sampled` draws each client of a round by itself, and the noise of each round is independent
(DP-FedAvg, McMahan et al., 2018). The others sample nothing: each client has its turn once in so
many rounds, and what gets independent noise z is C x, of which the prefix sums of x are made. The
noise of the sums themselves is then C⁻¹ z (DP-FTRL, Kairouz et al., 2021). A client changes C x by
at most the sensitivity, times S.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rapt.tuning.accounting import noise_for, spent
from rapt.tuning.private import COUNT_NOISE, beside_count
from rapt.tuning.tuners import Federated
from rapt.utils.errors import RaptError

Weights = dict[str, Tensor]  # of all that learns, by name
Vector = NDArray[np.float64]


def check(update: Mapping[str, Tensor], like: Weights) -> None:
    """Check that an update could be one of these weights.

    Raises:
        RaptError: it names other weights, or one has another type or shape, or holds a number that
            is not finite.
    """
    if odd := sorted(update.keys() ^ like.keys()):
        raise RaptError(
            f"update: got {len(update)} weights with other names, as {odd[0]}, expected the "
            f"{len(like)} that learn. Take the server's version and parameters."
        )
    for name, weight in like.items():
        given = update[name]
        if given.dtype != weight.dtype or given.shape != weight.shape:
            raise RaptError(
                f"update.{name}: got {given.dtype} {tuple(given.shape)}, expected {weight.dtype} "
                f"{tuple(weight.shape)}. Take the server's version and parameters."
            )
        if not torch.isfinite(given).all():
            raise RaptError(f"update.{name}: got a number that is not finite, expected none.")


def norm(update: Mapping[str, Tensor]) -> float:
    """Return the L2 norm over all weights, summed in float64."""
    return sqrt(sum(float(value.double().square().sum()) for value in update.values()))


def clipped(update: Weights, clip: float) -> Weights:
    """Return an update, float64, whose norm over all weights is at most `clip`."""
    length = norm(update)
    scale = clip / length if length > clip else 1.0
    return {name: scale * value.double() for name, value in update.items()}


def generator(secret: str, *names: str | int) -> np.random.Generator:
    """Return the generator of a purpose and a round: ChaCha20, keyed by sha256.

    Whoever knows the secret can draw the noise again, and nobody else can.
    """
    from randomgen import ChaCha

    digest = hashlib.sha256("\0".join(map(str, (secret, *names))).encode()).digest()
    return np.random.Generator(ChaCha(key=int.from_bytes(digest, "little")))


def nodes(end: int) -> list[tuple[int, int]]:
    """Return the tree's nodes (start, size) whose sum is that of the first `end` leaves."""
    found, start = [], 0
    for bit in reversed(range(end.bit_length())):
        if end >> bit & 1:
            found.append((start, 1 << bit))
            start += 1 << bit
    return found


def tree(rounds: int) -> Vector:
    """Return C (nodes, rounds) of a binary tree: each of its nodes sums the rounds below it."""
    sizes = [1 << bit for bit in range(rounds.bit_length())]
    starts = [(start, n) for n in sizes for start in range(0, rounds - n + 1, n)]
    matrix = np.zeros((len(starts), rounds))
    for row, (start, size) in enumerate(starts):
        matrix[row, start : start + size] = 1
    return matrix


def coefficients(band: int) -> Vector:
    """Return the first coefficients c of A^½, the square root of prefix sums (Fichtenberger 2023).

    The whole of them has the least largest error among Toeplitz matrices.
    """
    found = np.ones(band)
    for k in range(1, band):
        found[k] = found[k - 1] * (2 * k - 1) / (2 * k)
    return found


def banded(rounds: int, band: int) -> Vector:
    """Return C (rounds, rounds), lower triangular Toeplitz with so many diagonals."""
    matrix = np.zeros((rounds, rounds))
    for k, value in enumerate(coefficients(min(band, rounds))):
        matrix += value * np.eye(rounds, k=-k)
    return matrix


def sensitivity(matrix: Vector, apart: int) -> float:
    """Return how far a client changes C x whose every update has at most the norm 1.

    Args:
        matrix: C, without negative numbers: the worst are updates of one direction.
        apart: rounds from one turn of a client to its next. Its first turn may be any.
    """
    turns = [matrix[:, first::apart].sum(1) for first in range(min(apart, matrix.shape[1]))]
    return max(float(np.linalg.norm(turn)) for turn in turns)


@dataclass(frozen=True)
class Law:
    """A federated training and its noise.

    Attributes:
        noise: standard deviation of what is drawn, over the clipping norm; 0: nothing is promised.
        counts: standard deviation of the noise of the count of updates within the norm.
    """

    how: Federated
    noise: float = 0.0
    counts: float = 0.0

    @classmethod
    def of(cls, how: Federated) -> Law:
        """Find the noise.

        Raises:
            RaptError: none suffices.
        """
        law = cls(how)
        if how.epsilon is None:
            return law
        try:
            found = noise_for(how.epsilon, how.delta, *law.steps)
        except RaptError:
            raise RaptError(
                f"federated.epsilon: got {how.epsilon:g} at delta {how.delta:g}, which "
                f"{how.rounds} rounds reach by no noise that leaves something to learn, expected a "
                "larger one. Raise it, or take fewer rounds."
            ) from None
        if not how.adaptive:
            return cls(how, found * law.sensitivity)
        counts = COUNT_NOISE * law.size
        if 2 * counts <= found:
            raise RaptError(
                f"federated.adaptive: got true at noise {found:.2g} and {law.size:g} clients a "
                "round, which leave none for the count, expected more clients or false."
            )
        return cls(how, beside_count(found, counts), counts)

    @property
    def apart(self) -> int:
        """Rounds from one turn of a client to its next, where none are sampled."""
        return max(1, round(1 / self.how.rate))

    @property
    def size(self) -> float:
        """The clients of a round, on average."""
        share = self.how.rate if self.how.law == "sampled" else 1 / self.apart
        return share * self.how.clients

    @property
    def sensitivity(self) -> float:
        """How far a client changes what gets independent noise, over the clipping norm."""
        if self.how.law == "sampled":
            return 1.0  # of each round
        rounds = self.how.rounds
        matrix = tree(rounds) if self.how.law == "tree" else banded(rounds, self.apart)
        return sensitivity(matrix, self.apart)

    @property
    def steps(self) -> tuple[float, int]:
        """The rate and the number of the Gaussian mechanisms that it consists of."""
        return (self.how.rate, self.how.rounds) if self.how.law == "sampled" else (1.0, 1)

    def spent(self) -> float:
        """Return the ε at δ of all rounds, for one client."""
        total = self.noise / self.sensitivity
        if self.counts:
            total = (total**-2 + (2 * self.counts) ** -2) ** -0.5
        return spent(total, *self.steps, self.how.delta)

    def statement(self) -> dict[str, float]:
        """Return what is spent on one client, and the law's parameters; see `CellResult.training`.

        `clients` tells this statement from one on single texts.
        """
        found: dict[str, float] = {
            "clients": self.how.clients,
            "clip": self.how.clip,
            "rate": self.how.rate if self.how.law == "sampled" else 1 / self.apart,
            "steps": self.how.rounds,
        }
        if self.noise:
            found |= {"epsilon": self.spent(), "delta": self.how.delta, "noise": self.noise}
        return found

    def drawn(self, secret: str, round_: int) -> list[int]:
        """Return the clients of a round: drawn each by itself, or those whose turn it is."""
        if self.how.law == "sampled":
            chance = generator(secret, "clients", round_).random(self.how.clients)
            return np.flatnonzero(chance < self.how.rate).tolist()
        turn = generator(secret, "turns").permutation(self.how.clients) % self.apart
        return np.flatnonzero(turn == round_ % self.apart).tolist()


class Noise:
    """The noise of each round's sum, of standard deviation σ where rounds are independent."""

    def __init__(self, law: Law, secret: str, size: int) -> None:
        """Begin at the first round.

        Args:
            law: of the training.
            secret: of all that is drawn.
            size: numbers that learn.
        """
        self._law, self._secret, self._size = law, secret, size
        self._solved: list[Vector] = []  # C⁻¹ z of the last rounds, as far as C goes
        self._next = 0

    def of(self, round_: int) -> Vector:
        """Return the noise of a round's sum, float64 (size,), over the clipping norm."""
        if not self._law.noise:
            return np.zeros(self._size)
        if self._law.how.law == "tree":
            unit = self._tree(round_)
        else:
            unit = self._drawn(round_) if self._law.how.law == "sampled" else self._banded(round_)
        return self._law.noise * unit

    def _drawn(self, *names: int) -> Vector:
        return generator(self._secret, "noise", *names).standard_normal(self._size)

    def _tree(self, round_: int) -> Vector:
        """Return what the nodes of the next prefix have that those of the last have not."""
        before, after = set(nodes(round_)), set(nodes(round_ + 1))
        added = sum((self._drawn(*node) for node in sorted(after - before)), np.zeros(self._size))
        return added - sum(
            (self._drawn(*node) for node in sorted(before - after)), np.zeros(self._size)
        )

    def _banded(self, round_: int) -> Vector:
        """Solve C y = z on from the last round, or from the first one in a new process."""
        c = coefficients(self._law.apart)
        while self._next <= round_:
            earlier = zip(c[1:], reversed(self._solved), strict=False)
            solved = self._drawn(self._next) - sum(
                (by * y for by, y in earlier), np.zeros(self._size)
            )
            self._solved = [*self._solved, solved][-len(c) :]
            self._next += 1
        return self._solved[-1]
