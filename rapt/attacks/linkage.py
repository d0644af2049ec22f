"""Linkage: which of N candidate texts is the original of a release, for releases of every unit.

Words recovered cannot compare a vector with a text. How often the original is found can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat

from rapt.attacks.attributes import mean_vectors
from rapt.attacks.base import Linkage, Match, Pairs, Release, Vectors
from rapt.privacy.categories import VERBATIM

if TYPE_CHECKING:
    from rapt.privacy.base import AnyPrivatizer, PreparedText
    from rapt.text.table import EmbeddingTable

BELOW = 1e6  # a distance that no two texts have
Floats = NDArray[np.float64]
# From the released text at a place, and candidates of as many positions, to their scores.
Scored = Callable[[int, Sequence[int]], Floats]


class LikelihoodLinkage(Linkage):
    """The likeliest candidate, by the noise of vectors, or by what own pairs tell of words.

    - Vectors: no attacker who has nothing else, and holds all candidates as equally likely, does
      better than the density. Of DPNR's dropout it takes no notice.
    - Words one for one: their likelihood ratio, by how far the released word is from the original.
      Own pairs tell how often a distance occurs, and how often between any two words.
    - Units that a new text was written of, such as tokens: the distance, of as many.
    - Whatever else: the direction that a regression on own pairs makes of the released text.
    """

    source = "ours: the likelihood ratio (Neyman and Pearson, 1933)"
    attacker_knowledge = "the mechanism with its eta; own texts and their releases; the candidates"

    type: Literal["linkage"]
    bins: int = Field(24, ge=2, description="of distances between words, one for each as frequent")
    ridge: PositiveFloat = Field(1.0, description="the weight of the regression's penalty")

    def fit(self, privatizer: AnyPrivatizer[Any], own: Pairs, seed: int) -> Match:
        """Learn what the unit of the release requires."""
        has_density = own.released.vectors is not None and privatizer.mechanism.has_density
        if has_density:
            return partial(_by_density, privatizer)
        if privatizer.releases.aligned:
            return partial(
                _by_words, privatizer, _Ratios.of(privatizer.table, own, self.bins, seed)
            )
        regression = _regression(privatizer.table, own, self.ridge)
        if privatizer.mechanism.units([], privatizer.table) is None:
            return regression
        return partial(_by_units, privatizer, regression)


def _by_density(
    privatizer: AnyPrivatizer[Any], release: Release, candidates: Sequence[PreparedText]
) -> Floats:
    assert release.vectors is not None
    mechanism, eta = privatizer.mechanism, privatizer.eta
    ends = np.cumsum([len(text) for text in release.words])[:-1]
    released, originals = np.split(release.vectors, ends), privatizer.originals(candidates)
    stacked: dict[int, tuple[Floats, Floats]] = {}

    def radial(place: int, alike: Sequence[int]) -> Floats:
        """By products of matrices, as the distances of all positions are many."""
        seen = released[place].astype(np.float64)
        if len(seen) not in stacked:
            flat = np.concatenate([originals[one] for one in alike])
            clear = mechanism.represent(flat, np.zeros(flat.shape), np.inf)
            centres = clear.reshape(len(alike), *seen.shape)
            stacked[len(seen)] = centres, np.einsum("knd,knd->kn", centres, centres)
        centres, squares = stacked[len(seen)]
        products = np.einsum("knd,nd->kn", centres, seen)
        apart = squares - 2 * products + np.einsum("nd,nd->n", seen, seen)
        return mechanism.at_distance(np.sqrt(np.maximum(apart, 0)), eta).sum(axis=1)

    def any_law(place: int, alike: Sequence[int]) -> Floats:
        flat = np.concatenate([originals[one] for one in alike])
        seen = np.tile(released[place], (len(alike), 1))
        return mechanism.log_density(flat, seen, eta).reshape(len(alike), -1).sum(axis=1)

    scored = radial if mechanism.is_radial else any_law
    return _of_equal_length(released, originals, scored)


@dataclass(frozen=True, eq=False)
class _Ratios:
    """How much oftener a distance is that of a word to its release than that of any two words.

    Attributes:
        ends: of the bins of distances, ascending, float64 (k - 1,).
        logs: log ratio of each bin, and first that of equal words, float64 (1 + k,).
    """

    ends: Floats
    logs: Floats

    @classmethod
    def of(cls, table: EmbeddingTable, own: Pairs, bins: int, seed: int) -> _Ratios:
        """Count the distances in own pairs, and those to the words of other texts."""
        before, after = (
            np.array([table.form(word) for word in chain.from_iterable(texts)], object)
            for texts in (own.words, own.released.words)
        )
        others = before[np.random.default_rng(seed).permutation(len(before))]
        new = table.embed(list(after))
        true, false = (
            np.where(of == after, 0.0, np.linalg.norm(table.embed(list(of)) - new, axis=1))
            for of in (before, others)
        )
        apart = np.concatenate([true[true > 0], false[false > 0]])
        ends = np.unique(np.quantile(apart, np.arange(1, bins) / bins)) if len(apart) else apart
        counts = [
            np.bincount(_bins(ends, of), minlength=len(ends) + 2) + 1.0 for of in (true, false)
        ]
        return cls(ends, np.log(counts[0] / counts[1]))

    def __call__(self, vectors: Vectors, words: Any, new: Vectors, after: Any) -> Floats:
        """Return the log ratio of each of n released words to each of k words, (n, k)."""
        squares = np.einsum("kd,kd->k", vectors, vectors), np.einsum("nd,nd->n", new, new)
        apart = squares[1][:, None] + squares[0] - 2 * (new @ vectors.T)
        apart = np.sqrt(np.maximum(apart, np.finfo(np.float32).tiny))
        apart[after[:, None] == words] = 0
        return self.logs[_bins(self.ends, apart)]


def _bins(ends: Floats, distances: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """The bin of each distance; 0: equal words."""
    return np.where(distances > 0, 1 + np.searchsorted(ends, distances), 0)


def _by_words(
    privatizer: AnyPrivatizer[Any],
    ratios: _Ratios,
    release: Release,
    candidates: Sequence[PreparedText],
) -> Floats:
    from rapt.privacy.privatizer import of_words

    words, table = of_words(privatizer), privatizer.table
    is_clear = np.isinf(privatizer.eta)  # words of no table stand as they are, too
    places: dict[tuple[str, int], int] = {}
    originals = [
        np.array([places.setdefault(p, len(places)) for p in zip(t.words, t.groups, strict=True)])
        for t in candidates
    ]
    spelled = np.array([table.form(word) for word, _ in places], object)
    vectors, groups = table.embed(list(spelled)), np.array([group for _, group in places])

    def scored(place: int, alike: Sequence[int]) -> Floats:
        after = release.words[place]
        found = ratios(vectors, spelled, table.embed(after), np.array(after, object))
        for group in np.unique(groups):
            own = groups == group
            for at, word in enumerate(after):
                if group == VERBATIM or is_clear:
                    found[at, own] = np.where(spelled[own] == table.form(word), 0.0, -np.inf)
                elif word not in words.words_of(int(group)):
                    found[at, own] = -np.inf
        rows = np.stack([originals[one] for one in alike])
        return found[np.arange(len(after)), rows].sum(axis=1)

    return _of_equal_length(release.words, originals, scored)


def _units(privatizer: AnyPrivatizer[Any], texts: Iterable[Sequence[str]]) -> list[Floats] | None:
    """The vectors of the units of each text, (n, d); None: its mechanism has none."""
    found = [privatizer.mechanism.units(words, privatizer.table) for words in texts]
    known = [np.asarray(units, np.float64) for units in found if units is not None]
    return known if len(known) == len(found) else None


def _by_units(
    privatizer: AnyPrivatizer[Any],
    regression: Match,
    release: Release,
    candidates: Sequence[PreparedText],
) -> Floats:
    """Score texts of as many units by how near these are, and others below by the regression.

    A new text that is read again need not have as many units as its original.
    """
    released = _units(privatizer, release.words)
    originals = _units(privatizer, [text.words for text in candidates])
    assert released is not None and originals is not None

    def scored(place: int, alike: Sequence[int]) -> Floats:
        return -np.array(
            [np.linalg.norm(originals[one] - released[place], axis=1).sum() for one in alike]
        )

    found = _of_equal_length(released, originals, scored)
    return np.where(np.isneginf(found), regression(release, candidates) - BELOW, found)


def _regression(table: EmbeddingTable, own: Pairs, ridge: float) -> Match:
    """Map the mean of what is released to that of the original words' vectors (Hoerl, 1970)."""

    def seen(release: Release) -> Floats:
        return mean_vectors(table, release).astype(np.float64)

    given, wanted = seen(own.released), seen(Release(own.words))
    centre, target = given.mean(axis=0), wanted.mean(axis=0)
    spread = max(float(given.std()), np.finfo(float).tiny)
    x = (given - centre) / spread
    penalty = ridge * len(x) * np.eye(x.shape[1])
    weights = np.linalg.solve(x.T @ x + penalty, x.T @ (wanted - target))

    def match(release: Release, candidates: Sequence[PreparedText]) -> Floats:
        guessed = (seen(release) - centre) / spread @ weights
        words = Release([list(map(table.form, text.words)) for text in candidates])
        return _directions(guessed) @ _directions(seen(words) - target).T

    return match


def _directions(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(float).tiny)


def _of_equal_length(released: Sequence[Any], originals: Sequence[Any], scored: Scored) -> Floats:
    """Score the candidates of as many positions as a released text; no others are possible."""
    of_length = defaultdict(list)
    for place, text in enumerate(originals):
        of_length[len(text)].append(place)
    found = np.full((len(released), len(originals)), -np.inf)
    for place, text in enumerate(released):
        if alike := of_length[len(text)]:
            found[place, alike] = scored(place, alike) if len(text) else 0.0
    return found


def by_length(
    privatizer: AnyPrivatizer[Any], release: Release, candidates: Sequence[PreparedText]
) -> Floats:
    """Score candidates by the number of positions alone, which most releases do not hide."""
    seen = np.array([len(text) for text in release.words])
    if release.vectors is not None:
        lengths = [len(vectors) for vectors in privatizer.originals(candidates)]
    elif privatizer.releases.aligned:
        lengths = [len(text.words) for text in candidates]
    elif units := _units(privatizer, [text.words for text in candidates]):
        lengths = [*map(len, units)]
        seen = np.array([*map(len, _units(privatizer, release.words) or [])])
    else:
        return np.zeros((len(seen), len(candidates)))
    return np.where(np.equal.outer(seen, np.array(lengths)), 0.0, -np.inf)
