"""Tests of a release word by word: its noise and its outcomes, in every stratum of the corpus.

The law is computed apart from the code that is audited. A plain search in float64 finds the word
nearest to each noisy vector. Other releases of the corpus follow T2T's formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, gamma, norm

from rapt.audit.corpus import CATEGORY, Codes, Corpus
from rapt.audit.exact import POWER, REPEATS, two_sided
from rapt.audit.laws import (
    FEW_GROUPS,
    LAGS,
    Check,
    Numbers,
    Split,
    coarse_checks,
    noise_checks,
    repeats,
)
from rapt.privacy.mechanisms import base

TEXT_LAGS = (1, 2, 3, 4, 5, 7, 10, 64, 100, 256, 1000)
NEAR = 10  # words
REPLICAS = 4  # releases of the corpus by the reference
RANDOM_DIFFERENCES = 5
CHUNK = 4096


class Search:
    """A search that notes what it is asked for."""

    def __init__(self, search: Any, vectors: NDArray[np.float32]) -> None:
        """Take the search, and the candidates that it was made of."""
        self._search, self.vectors = search, vectors
        self.asked: list[Numbers] = []

    def __call__(self, vectors: Numbers) -> Any:
        """See ExactSearch."""
        self.asked.append(np.array(vectors, np.float64))
        return self._search(vectors)

    def nearest(self, vectors: Numbers, count: int) -> Any:
        """See ExactSearch."""
        self.asked.append(np.array(vectors, np.float64))
        return self._search.nearest(vectors, count)


@contextmanager
def watched() -> Iterator[list[Search]]:
    """Note every search of a space that is made meanwhile."""
    made: list[Search] = []
    search = base.Space.search

    def noting(space: base.Space) -> Any:
        made.append(Search(search(space), space.vectors))
        return made[-1]

    base.Space.search = noting  # type: ignore[method-assign, assignment]
    try:
        yield made
    finally:
        base.Space.search = search  # type: ignore[method-assign]


class Sight(NamedTuple):
    """The smallest faults of a stratum that are caught.

    Attributes:
        stratum: which words.
        words: the number of them in the corpus.
        bare: the share of them without noise, where the noise is seen.
        verbatim: the share that stands as it is, where only the outcomes are seen; None: any share
            may go unseen.
        eta: the factor on their η.
    """

    stratum: str
    words: int
    bare: float
    verbatim: float | None
    eta: float


def _smallest_share(words: int, replicas: int, share: float, level: float) -> float | None:
    """The smallest share that stands beside those that become themselves by the law."""

    def detects(more: float) -> bool:
        ours = binom.ppf(1 - POWER, words, share + (1 - share) * more)
        both = ours + replicas * share
        return bool(two_sided(binom, ours, both, words / (words + replicas)) < level)

    low, high = 0.0, 1.0
    if not detects(high):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Law:
    """T2T, or PCT2T where words have tags, over the corpus, computed plainly.

    Attributes:
        corpus: the texts and the table.
        eta: the privacy parameter.
        tags: of each word; none: every word may become any.
    """

    corpus: Corpus
    eta: float
    tags: Sequence[str] = ()

    @cached_property
    def groups(self) -> list[tuple[Codes, Codes]]:
        """For each category the places of its words, and the table's rows of its candidates."""
        corpus = self.corpus
        if not self.tags:
            return [(np.arange(len(corpus.words)), np.arange(len(corpus.table)))]
        number = np.array([CATEGORY.get(tag, CATEGORY["X"]) for tag in self.tags])
        groups = []
        for category in sorted({*CATEGORY.values()}):
            # A word that the tagger finds no part of speech for may become any.
            is_any = category == CATEGORY["X"]
            rows = [
                is_any or any(CATEGORY.get(tag) == category for tag in tags) for tags in corpus.pos
            ]
            groups.append((np.flatnonzero(number == category), np.flatnonzero(rows)))
        return groups

    @cached_property
    def strata(self) -> dict[str, Codes]:
        """The strata of each word."""
        return self.corpus.strata | (self.corpus.tagged(self.tags) if self.tags else {})

    @cached_property
    def vectors(self) -> Numbers:
        """The vector of each word; of one that the table lacks, the mean."""
        table = self.corpus.vectors
        every = np.concatenate([table, table.mean(axis=0, keepdims=True)])
        return np.asarray(every[self.corpus.rows], np.float64)

    @cached_property
    def order(self) -> Codes:
        """Row by row the words from the nearest on; the last row is of words the table lacks."""
        table = np.asarray(self.corpus.vectors, np.float64)
        every = np.concatenate([table, table.mean(axis=0, keepdims=True)])
        return np.concatenate(
            [np.argsort(_distances(part[None], table)[0]) for part in every]
        ).reshape(len(every), -1)

    @cached_property
    def ranks(self) -> Codes:
        """How many words are nearer to a word than another one, (V + 1, V)."""
        return np.argsort(self.order, axis=1)

    def noise(self, searches: Sequence[Search]) -> Numbers | None:
        """The noise of each word in units of 1/η, (n, d); None: not every word is searched for."""
        sums = np.full(self.vectors.shape, np.nan)
        for places, rows in self.groups:
            candidates = self.corpus.vectors[rows]
            asked = [
                part
                for search in searches
                if np.array_equal(search.vectors, candidates)
                for part in search.asked
            ]
            if sum(map(len, asked)) != len(places):
                return None
            if asked:
                sums[places] = np.concatenate(asked)
        return self.eta * (sums - self.vectors)

    def nearest(self, noise: Numbers) -> Iterator[tuple[Codes, Codes, Numbers]]:
        """Yield places, the nearest row of each, and the distances to all rows of the table."""
        for places, rows in self.groups:
            table = np.asarray(self.corpus.vectors[rows], np.float64)
            for start in range(0, len(places), CHUNK):
                at = places[start : start + CHUNK]
                distances = _distances(self.vectors[at] + noise[at] / self.eta, table)
                yield at, rows[distances.argmin(axis=1)], distances

    def released(self, noise: Numbers) -> Codes:
        """The row that each word becomes with this noise."""
        found = np.empty(len(self.vectors), np.int64)
        for at, rows, _ in self.nearest(noise):
            found[at] = rows
        return found

    @cached_property
    def replicas(self) -> Codes:
        """Releases of the corpus, (REPLICAS, n): Gamma(d) as a sum, times a direction."""
        rng = np.random.Generator(np.random.SFC64(1))
        releases = []
        for _ in range(REPLICAS):
            direction = rng.standard_normal(self.vectors.shape)
            size = rng.standard_exponential(self.vectors.shape).sum(axis=1)
            direction *= (size / np.linalg.norm(direction, axis=1))[:, None]
            releases.append(self.released(direction))
        return np.array(releases)

    def checks(self, calls: Sequence[Any], noise: Sequence[Numbers | None]) -> Iterator[Check]:
        """Test releases of the corpus.

        Args:
            calls: of two calls or processes, the words of each text.
            noise: of each word in each call; empty: the noise is not seen.
        """
        corpus = self.corpus
        lengths = [len(text) for text in corpus.texts]
        if any([len(text) for text in call] != lengths for call in calls):
            yield Check("the number of texts and words", 0.0)
            return
        number = {word: row for row, word in enumerate(corpus.table)}
        rows = np.array(
            [[number.get(word, -1) for text in call for word in text] for call in calls]
        )
        for places, candidates in self.groups:
            if not np.isin(rows[:, places], candidates).all():
                yield Check("words that are none of the candidates", 0.0)
                return
        if noise:
            seen = [part for part in noise if part is not None]
            if len(seen) < len(noise):
                yield Check("noise: some word is not searched for among its candidates", 0.0)
                return
            for part, found in zip(seen, rows, strict=True):
                wrong = int((self.released(part) != found).sum())
                yield Check(
                    f"words that are not the nearest to their noise: {wrong}", float(not wrong)
                )
            for check in self._noise_checks(seen):
                yield Check(f"noise: {check.what}", check.p)
        yield from self._outcome_checks(rows)

    def sight(self, calls: int, level: float) -> Iterator[Sight]:
        """Yield the smallest faults that are caught with probability POWER, in some strata.

        Args:
            calls: the number of releases of the corpus whose noise is seen.
            level: of each test.
        """
        strata, dimension = self.strata, self.corpus.vectors.shape[1]
        words, replicas = self.corpus.rows, self.replicas
        stays = (self.ranks[words, replicas] < 1).mean(axis=0)
        chosen = {
            "all words": np.ones(len(words), bool),
            "more than 6 letters": strata["more than 6 letters"] > 0,
            "capitalised": np.array([word[0].isupper() for word in self.corpus.words]),
            "beyond ASCII": strata["ASCII"] < 1,
            "unknown to the table": words < 0,
            "rarest in the table": strata["frequency in the table"] == 1,
            "first of a text": self.corpus.place == 0,
            "beyond the first piece": strata["piece"] > 1,
            "every 1,000th text": strata["every 1000 texts"] == 999,
        }
        tags = np.array(self.tags)
        chosen |= {tag: tags == tag for tag in ("PROPN", "NUM") if len(tags)}
        for name, inside in chosen.items():
            n = int(inside.sum())
            seen = n * calls
            shape, each = seen * dimension, level / FEW_GROUPS
            yield Sight(
                name,
                n,
                1 - (1 - POWER) ** (1 / seen),
                _smallest_share(calls * n, len(replicas) * n, float(stays[inside].mean()), each),
                float(gamma.ppf(POWER, shape) / gamma.ppf(each / 2, shape)),
            )

    def further_sight(self, calls: int, level: float) -> dict[str, float]:
        """The smallest faults of other kinds that the seen noise shows, with probability POWER."""
        dimension = self.corpus.vectors.shape[1]
        n = calls * len(self.corpus.words)
        far = np.sqrt(2 * np.log(4 / level)) + norm.ppf(POWER)
        # Of a coordinate of less variance, fewer than half are beyond the middle.
        missing = (norm.isf(level / (4 * dimension)) + norm.ppf(POWER)) / 2 / np.sqrt(n)
        return {
            "correlation": float(far / np.sqrt(n * dimension)),
            "variance": float((norm.ppf(0.75) / norm.isf((0.5 - missing) / 2)) ** 2),
            "tail": float(-np.log(level / 2) / n),
            "bits": float(np.log2(n**2 / 2 / REPEATS)),
        }

    def _noise_checks(self, calls: Sequence[Numbers]) -> Iterator[Check]:
        """Test the noise of two calls or processes, in units of 1/η, (n, d) each."""
        noise = np.concatenate(calls)
        size = np.linalg.norm(noise, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = np.nan_to_num(noise / size[:, None])
        seen = Split(size, unit, gamma.cdf(size, noise.shape[1]) - 0.5)
        codes = {name: np.tile(code, len(calls)) for name, code in self.strata.items()}
        pairs = (
            (name, seen.at(one), seen.at(other))
            for name, one, other in _pairs(self.corpus, len(calls))
        )
        yield from noise_checks(seen, codes, self._cosines(unit, len(calls)), pairs)
        yield from coarse_checks(size, unit)

    def _cosines(self, unit: Numbers, calls: int) -> Iterator[tuple[str, Numbers]]:
        for name, direction in self._directions():
            cosine = np.einsum("nd,nd->n", unit, np.tile(direction, (calls, 1)))
            with np.errstate(invalid="ignore", divide="ignore"):
                cosine /= np.tile(np.linalg.norm(direction, axis=1), calls)
            yield f"the difference to {name}", cosine

    def _directions(self) -> Iterator[tuple[str, Numbers]]:
        table = np.asarray(self.corpus.vectors, np.float64)
        rows, rng = self.corpus.rows, np.random.Generator(np.random.PCG64(2))
        for rank, name in ((1, "the nearest word"), (2, "the second nearest word")):
            yield name, table[self.order[rows, rank]] - self.vectors
        for _ in range(RANDOM_DIFFERENCES):
            other = (rows + rng.integers(1, len(table), size=len(rows))) % len(table)
            yield "a random word", table[other] - self.vectors

    def _outcome_checks(self, rows: Codes) -> Iterator[Check]:
        """Compare outcomes by stratum with those of the reference."""
        words = self.corpus.rows
        rank, expected = self.ranks[words, rows], self.ranks[words, self.replicas]
        for event, inside, other in (
            ("verbatim", rank < 1, expected < 1),
            (f"one of the {NEAR} nearest", rank < NEAR, expected < NEAR),
        ):
            for name, codes in self.strata.items():
                p = _as_often(codes, inside, other)
                yield Check(f"how often a word becomes {event}, by {name}", p)
            for lag in LAGS:
                both = inside[:, lag:] & inside[:, :-lag]
                p = _as_often(None, both, other[:, lag:] & other[:, :-lag])
                yield Check(f"how often words {lag} apart become {event}", p)
        agree, others = rows[:1] == rows[1:], self.replicas[0::2] == self.replicas[1::2]
        yield Check("how often two calls or processes agree", _as_often(None, agree, others))
        ends = np.cumsum([len(text) for text in self.corpus.texts])[:-1]
        keys = [hash(tuple(text)) for call in rows for text in np.split(call, ends)]
        equal = float(others.mean()) + 0.1
        shortest = min(len(text) for text in self.corpus.texts)
        yield Check("repeated texts", repeats([np.array(keys)], equal**shortest))


def _distances(one: Numbers, table: Numbers) -> Numbers:
    """Squared distances, less those of the queries to the origin."""
    return np.asarray(np.einsum("vd,vd->v", table, table) - 2 * (one @ table.T))


def _as_often(codes: Codes | None, inside: NDArray[Any], other: NDArray[Any]) -> float:
    """Whether an event is as frequent in each stratum as in other releases of the same words.

    Given how often both had it, the number of the first is binomial at most.
    """
    part = len(inside) / (len(inside) + len(other))
    one, two = inside.sum(axis=0), other.sum(axis=0)
    if codes is None:
        ours, all = np.array([one.sum()]), np.array([one.sum() + two.sum()])
    else:
        ours = np.bincount(codes, weights=one)
        all = ours + np.bincount(codes, weights=two)
    tests = two_sided(binom, ours[all > 0], all[all > 0], part)
    return float(min(1.0, tests.size * tests.min(initial=1.0)))


def _pairs(corpus: Corpus, calls: int) -> Iterator[tuple[str, Codes, Codes]]:
    """Yield places of words whose noise is independent."""
    text, place, n = corpus.text, corpus.place, len(corpus.words)
    every = np.arange(n)
    for lag in LAGS:
        one = every[:-lag][text[:-lag] == text[lag:]]
        yield f"words {lag} apart", one, one + lag
    start = np.flatnonzero(place == 0)
    size = np.diff([*start, n])
    for lag in TEXT_LAGS:
        if lag >= len(start):
            continue
        later = np.minimum(text + lag, len(start) - 1)
        one = every[(text + lag < len(start)) & (place < size[later])]
        yield f"texts {lag} apart", one, start[text[one] + lag] + place[one]
    order = np.argsort(corpus.strata["word"], kind="stable")
    same = corpus.strata["word"][order]
    again = same[1:] == same[:-1]
    yield "the places of a word", order[:-1][again], order[1:][again]
    if calls > 1:
        yield "two calls or processes", every, every + n
