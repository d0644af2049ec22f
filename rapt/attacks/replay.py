"""Inversion by an attacker who knows the seed of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release, Vectors, by_text
from rapt.privacy.categories import VERBATIM

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable

Rows = NDArray[np.int64]

# Candidates are compared with a few rivals first, then with more. Those left are compared with all
# rivals, AT_ONCE at a time and most frequent first, as the first to pass is the guess.
FEW, MORE = 64, 1024
AT_ONCE = 8
# Rounding error of a score in float32, as a share of its largest term.
ROUNDING = 1e-5


class SeedReplay(Inversion):
    """The original words that the release's own noise turns into the released ones.

    Of several such words it takes the most frequent one, if possible from the released word's own
    group. A text may tag a word differently than the table. From released vectors the noise is
    subtracted. This is why releases are not seeded.
    """

    source = "ours"
    attacker_knowledge = "the mechanism with its eta, the seed"
    mechanisms = frozenset({"t2t", "pct2t", "token-representation"})

    type: Literal["seed-replay"]

    @property
    def given(self) -> str | None:
        """The seed, which releases to a provider do not have."""
        return "the seed"

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn nothing: the noise is drawn again."""

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            (release,) = copies
            assert release.noise
            if release.vectors is not None:
                return _without(public.table, release)
            replay = _Replay(public)
            with threadpool_limits(1):  # so that the figures do not depend on the cores
                return [
                    replay(text, noise.astype(np.float32))
                    for text, noise in zip(release.words, release.noise(), strict=True)
                ]

        return Inverter(invert)


def _without(table: EmbeddingTable, release: Release) -> list[list[str]]:
    """Return the words nearest to the released vectors minus their noise."""
    from rapt.privacy.neighbours import ExactSearch

    assert release.noise and release.vectors is not None
    noise = np.concatenate([np.empty((0, table.dimension)), *release.noise()])
    nearest = ExactSearch(table.vectors)(release.vectors - noise)
    return by_text(release.words, (table.words[row] for row in nearest))


class _Replay:
    """Inversion of nearest neighbours under known noise.

    With noise z, word w becomes y if, among all words v of the group, the score
    (E(w) + z)·E(v) − ‖E(v)‖²/2 is largest for v = y.
    """

    def __init__(self, public: Public) -> None:
        self._public = public
        self._vectors: Vectors = np.array(public.table.vectors)
        self._half = (self._vectors**2).sum(axis=1) / 2

    def __call__(self, text: Sequence[str], noise: Vectors) -> list[str]:
        words, guesses = self._public.table.words, list(text)
        rows = self._public.table.rows(text)
        offsets = noise @ self._vectors.T - self._half  # scores without E(w)·E(v)
        for at in np.flatnonzero(rows >= 0):
            origin = self._origin(int(rows[at]), offsets[at])
            guesses[at] = words[origin]
        return guesses

    def _origin(self, released: int, offset: Vectors) -> int:
        """Return the most likely original row; the released row itself if it is verbatim."""
        public = self._public
        if public.groups[released] == VERBATIM:
            return released
        inside = public.groups == public.groups[released]
        rivals = np.flatnonzero(inside)
        rivals = rivals[np.argsort(-offset[rivals], kind="stable")]  # favoured by the noise first
        score = self._vectors @ self._vectors[released] + offset[released]
        score += ROUNDING * (self._half.max() + np.abs(offset).max())
        # Each candidate in the group is also its own rival, which rules out nearly all of them.
        alive = np.flatnonzero(inside & (score >= 2 * self._half + offset))

        def led(candidates: Rows, rivals: Rows) -> Rows:
            scores = self._vectors[candidates] @ self._vectors[rivals].T + offset[rivals]
            return candidates[(scores <= score[candidates, None]).all(axis=1)]

        for candidates in (alive, np.flatnonzero(~inside)):
            some = led(led(candidates, rivals[:FEW]), rivals[FEW:MORE])
            some = some[np.argsort(-public.table.frequency[some], kind="stable")]
            for start in range(0, len(some), AT_ONCE):
                if len(found := led(some[start : start + AT_ONCE], rivals[MORE:])):
                    return int(found[0])
        return released
