"""What whoever knows the seed of a release makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release, Vectors
from rapt.privacy.categories import VERBATIM

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable

Rows = NDArray[np.int64]

# Candidates are held against a few rivals first, then against more; against all of them by their
# frequency, so many at once, as the first that holds is the guess.
FEW, MORE = 64, 1024
AT_ONCE = 8
# Of a score in float32, as a share of its largest term.
ROUNDING = 1e-5


class SeedReplay(Inversion):
    """The words that the very noise of the release turns into the released ones.

    Of several the most frequent, of the released word's own group where there is one (a word may
    stand in a text as another part of speech). From released vectors the noise is taken away, and
    nothing is left to guess. Why releases are not seeded.
    """

    source: ClassVar[str] = "ours"
    knows: ClassVar[str] = "the mechanism with its eta, the seed"
    mechanisms: ClassVar[frozenset[str] | None] = frozenset(
        {"t2t", "pct2t", "token-representation"}
    )

    type: Literal["seed-replay"]

    @property
    def given(self) -> str | None:
        """Releases to a provider have no seed."""
        return "the seed"

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""

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
    """The words nearest to released vectors without their noise."""
    from rapt.privacy.neighbours import ExactSearch

    assert release.noise and release.vectors is not None
    noise = np.concatenate([np.empty((0, table.dimension)), *release.noise()])
    rows = iter(ExactSearch(table.vectors)(release.vectors - noise))
    return [[table.words[row] for row in islice(rows, len(text))] for text in release.words]


class _Replay:
    """Nearest neighbours under noise that is known, backwards.

    Word w became y of a group if its score (E(w) + z)·E(v) − ‖E(v)‖²/2, of all words v of the
    group, is largest for v = y.
    """

    def __init__(self, public: Public) -> None:
        self._public = public
        self._vectors: Vectors = np.array(public.table.vectors)
        self._half = (self._vectors**2).sum(axis=1) / 2

    def __call__(self, text: Sequence[str], noise: Vectors) -> list[str]:
        words, guesses = self._public.table.words, list(text)
        rows = self._public.table.rows(text)
        offsets = noise @ self._vectors.T - self._half  # of the scores for each v, whatever w
        for at in np.flatnonzero(rows >= 0):
            origin = self._origin(int(rows[at]), offsets[at])
            guesses[at] = words[origin]
        return guesses

    def _origin(self, released: int, offset: Vectors) -> int:
        """The likeliest row that became this one, itself where it is released as it is."""
        public = self._public
        if public.groups[released] == VERBATIM:
            return released
        inside = public.groups == public.groups[released]
        rivals = np.flatnonzero(inside)
        rivals = rivals[np.argsort(-offset[rivals], kind="stable")]  # whom the noise favours first
        score = self._vectors @ self._vectors[released] + offset[released]
        score += ROUNDING * (self._half.max() + np.abs(offset).max())
        # A word of the group is a rival itself, which rules nearly all of them out.
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
