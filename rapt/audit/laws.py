"""White-box tests: the noise and the uniform numbers that a mechanism uses, against their law."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc
from scipy.stats import beta, binom, chi2, gamma, kstwo, laplace, norm, poisson
from threadpoolctl import threadpool_limits

from rapt.audit.exact import POWER, deviates, exact_law, smallest_excess, two_sided
from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import (
    Mechanism,
    Sampler,
    Space,
    TextVectorMechanism,
    VectorMechanism,
    WordMechanism,
)
from rapt.privacy.mechanisms.base import Law, Vectors
from rapt.privacy.mechanisms.noise import NoiseMechanism
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable

Streams = Callable[..., np.random.Generator]
Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]
Result = TypeVar("Result")

WORDS = 20  # of each text
TEXTS = 500  # of the first call
WHOLE_TEXTS = 2500  # of mechanisms that draw once for a text
FEW_TEXTS = 100  # of the second call, and of each process
SMALL, MORE = 8, 3  # in so few dimensions so many times as many, to see the tails
DIRECTIONS = 8  # differences of the table's words
LAGS = (1, 2, 3, 4, 5)  # of words
ORDER = (1, 10, 100)  # the smallest and the greatest sizes that are tested
FEW_GROUPS = 64  # strata, beyond which directions are not tested in each
ENOUGH = 16  # words for each dimension, from which on a stratum's own directions are sought
ROUNDED = 2.0**-36  # in units of the noise: far above rounding, far below float32
BITS = 53  # of a uniform number
TRIES = 2.0**-53  # the chance that two uniform numbers are equal


@dataclass(frozen=True)
class Check:
    """A test of a law.

    Attributes:
        what: is tested.
        p: the probability of so great a deviation under the law, at most.
    """

    what: str
    p: float


class Seen(NamedTuple):
    """The draws of a mechanism for texts of equally many words.

    Attributes:
        noise: of each search for all words, or of the released vectors, in units of its size:
            (searches, texts, words, d).
        uniforms: (texts, words, k).
    """

    noise: Numbers
    uniforms: Numbers


class _Search:
    """A search that notes what it is asked for, and answers with the first words."""

    def __init__(self, asked: list[Numbers]) -> None:
        self._asked = asked

    def __call__(self, vectors: Numbers) -> NDArray[np.int64]:
        return self.nearest(vectors, 1)[:, 0]

    def nearest(self, vectors: Numbers, count: int) -> NDArray[np.int64]:
        self._asked.append(np.asarray(vectors, np.float64))
        return np.tile(np.arange(count), (len(vectors), 1))


class _Watched(Privatizer):
    """A privatizer whose mechanism's searches and draws are noted.

    Noise that the mechanism adds to a word shows in what it searches for.
    """

    def __init__(self, **how: Any) -> None:
        self.asked: list[Numbers] = []
        self.noise: list[list[Numbers]] = []
        self.drawn: list[Numbers] = []
        super().__init__(**how)

    def spaces(self) -> list[Space]:
        search = _Search(self.asked)

        class Noted(Space):
            def search(self) -> Any:
                return search

        return [Noted(space.vectors, space.frequency) for space in super().spaces()]

    def sampler(self, group: int) -> Sampler:
        sampler = super().sampler(group)

        def release(vectors: Any, draws: Any) -> Any:
            self.asked.clear()
            rows = sampler(vectors, draws)
            every = [asked for asked in self.asked if len(asked) == len(vectors)]
            self.noise.append([asked - vectors for asked in every])
            self.drawn.append(draws)
            return rows

        return release


def watched(
    kind: Mechanism, table: EmbeddingTable, eta: float, texts: Sequence[PreparedText]
) -> Seen:
    """Release texts of equally many words, and see what the mechanism draws for them."""
    shape = (len(texts), len(texts[0].words), -1)
    if isinstance(kind, WordMechanism):
        categories = ("noun",) if kind.categories == "required" else None
        privatizer = _Watched(table=table, mechanism=kind, eta=eta, categories=categories)
        with threadpool_limits(1, "blas"):  # in order
            for _ in privatizer.privatize(texts):
                pass
        drawn = np.concatenate(privatizer.drawn)
        uniforms = drawn[:, drawn.shape[1] - kind.uniforms :].reshape(shape)
        if not isinstance(kind, NoiseMechanism):
            return Seen(np.empty((0, *shape[:2], 0)), uniforms)
        (space,) = privatizer.spaces()
        searches = zip(*privatizer.noise, strict=True)
        noise = [kind.standard(space, np.concatenate(parts)).reshape(shape) for parts in searches]
        every = np.array(noise, np.float64).reshape(-1, *shape[:2], table.dimension)
        return Seen(eta * every, uniforms)
    assert isinstance(kind, VectorMechanism)
    released = []
    for text in texts:
        vectors = before_noise(kind, text.words, table)
        released.append(kind.release(vectors, text.stream(), eta) - vectors)
    if kind.noise is None:
        return Seen(np.empty((0, *shape[:2], 0)), np.empty((*shape[:2], 0)))
    return Seen(np.array(released)[None] / kind.size(eta), np.empty((*shape[:2], 0)))


def before_noise(kind: Mechanism, words: Sequence[str], table: EmbeddingTable) -> Vectors:
    """The vectors of a text that a mechanism adds noise to, one or one for each word."""
    if isinstance(kind, TextVectorMechanism):
        return kind.encode([words], table)
    return table.embed(words)


def white_box(
    kind: Mechanism, table: EmbeddingTable, eta: float, streams: Streams
) -> Iterator[Check]:
    """Yield the tests of a mechanism's draws over a table, in its dimension."""
    words = list(islice(cycle(table.words), _words(kind)))

    def seen(call: str, texts: int) -> Seen:
        named = (kind.name, "white-box", table.dimension, call)
        every = [
            PreparedText(words, [0] * len(words), partial(streams, *named, text))
            for text in range(texts)
        ]
        return watched(kind, table, eta, every)

    first = seen("first", _texts(kind, table))
    again = seen("again", FEW_TEXTS)
    one, other = forked(lambda process: seen(f"process {process}", FEW_TEXTS))
    where = f"in {table.dimension} dimensions"
    noise = kind.noise if isinstance(kind, VectorMechanism) else None
    if isinstance(kind, NoiseMechanism) and not len(first.noise):
        yield Check(f"noise {where}: none is seen in a search", 0.0)
    for number in range(len(first.noise)):
        parts = (first, again, one, other)
        four = [_split(part.noise[number], noise or "spherical") for part in parts]
        for check in _noise_checks(four, table, isinstance(kind, VectorMechanism)):
            yield Check(f"noise {where}: {check.what}", check.p)
    if first.uniforms.size:
        for check in _uniform_checks([part.uniforms for part in (first, again, one, other)]):
            yield Check(f"uniform numbers {where}: {check.what}", check.p)
    law = exact_law(kind, Space(table.vectors, table.frequency), eta)
    if law is not None:
        off = deviates(kind, Space(table.vectors, table.frequency), eta, law, len(law))
        yield Check(f"outcomes {where}: their exact probabilities", 0.0 if off(1.0) else 1.0)


def white_box_excess(
    kind: Mechanism, table: EmbeddingTable, eta: float, level: float
) -> float | None:
    """The smallest factor on η that the tests of the noise's size, or of the law, detect.

    The sum of n sizes is Gamma(n·d); at f·η it is 1/f of it. None: it is not known, as of Gaussian
    noise, whose size is no multiple of 1/η.
    """
    if isinstance(kind, VectorMechanism) and kind.noise == "gaussian":
        return None
    if isinstance(kind, NoiseMechanism) or (isinstance(kind, VectorMechanism) and kind.noise):
        shape = table.dimension * _texts(kind, table) * _words(kind)
        return float(gamma.ppf(POWER, shape) / gamma.ppf(level / 2, shape))
    space = Space(table.vectors, table.frequency)
    law = exact_law(kind, space, eta)
    return None if law is None else smallest_excess(deviates(kind, space, eta, law))


def _words(kind: Mechanism) -> int:
    """The number of words of each text: a text that is released as a whole draws once."""
    return WORDS if kind.releases.aligned else 1


def _texts(kind: Mechanism, table: EmbeddingTable) -> int:
    """The number of texts of the first call."""
    few = TEXTS if kind.releases.aligned else WHOLE_TEXTS
    return few * (MORE if table.dimension <= SMALL else 1)


class Split(NamedTuple):
    """Noise as size, of law Gamma(d, 1), and direction, uniform on the sphere."""

    size: Numbers
    direction: Numbers
    centred: Numbers

    def flat(self) -> Split:
        """The noise of all words, (n,) and (n, d)."""
        units = self.direction.reshape(-1, self.direction.shape[-1])
        return Split(self.size.ravel(), units, self.centred.ravel())

    def at(self, places: Any) -> Split:
        """The noise in these places."""
        return Split(*(part[places] for part in self))


def _split(noise: Numbers, law: Law) -> Split:
    """Split noise; of Laplace noise the size is the sum of absolute values."""
    dimension = noise.shape[-1]
    length = np.linalg.norm(noise, axis=-1)
    size = np.abs(noise).sum(axis=-1) if law == "laplace" else length
    if law == "laplace":  # as normal numbers, whose direction does not depend on their length
        noise = norm.ppf(laplace.cdf(noise))
        length = np.linalg.norm(noise, axis=-1)
    if law == "spherical":
        uniform = gamma.cdf(length, dimension)
    else:
        uniform = chi2.cdf(length**2, dimension)
    if law == "gaussian":
        size = gamma.isf(chi2.sf(length**2, dimension), dimension)
    with np.errstate(invalid="ignore"):
        direction = np.nan_to_num(noise / length[..., None])
    return Split(size, direction, uniform - 0.5)


def _noise_checks(four: Sequence[Split], table: EmbeddingTable, on_grid: bool) -> Iterator[Check]:
    """Test noise of two calls and two processes: its size, its direction, its independence."""
    first, (texts, words) = four[0].flat(), four[0].size.shape
    dimension = first.direction.shape[-1]
    strata = {
        "place": np.tile(np.arange(words), texts),
        "word": np.tile(np.arange(words) % len(table.words), texts),
        "text": np.repeat(np.arange(texts), words),
    }
    yield Check("the mean size", two_sided(gamma, first.size.sum(), len(first.size) * dimension))
    axes = {name: first.direction @ (axis / np.linalg.norm(axis)) for name, axis in _axes(table)}
    pairs = ((f"two {name}", one.flat(), other.flat()) for name, one, other in _pairs(four))
    yield from noise_checks(first, strata, axes.items(), pairs)
    yield Check("size and direction", concordance(first.centred, first.direction[:, 0]))
    every = [part.flat() for part in four]
    sizes = np.concatenate([part.size for part in every])
    yield Check("repeats", repeats([sizes]))
    if not on_grid:
        yield from coarse_checks(sizes, np.concatenate([part.direction for part in every]))


def noise_checks(
    noise: Split,
    strata: Mapping[str, Codes],
    cosines: Iterable[tuple[str, Numbers]],
    pairs: Iterable[tuple[str, Split, Split]],
) -> Iterator[Check]:
    """Test the noise of n words: its size and direction by stratum, and its independence.

    The cosines are those with directions that must not matter. The pairs are independent.
    """
    dimension = noise.direction.shape[1]
    yield Check("the law of its size", law_of_size(noise.size, dimension))
    yield from tails(noise.size, dimension)
    for name, codes in strata.items():
        yield Check(f"its size, by {name}", by_stratum(codes, noise.size, dimension))
    yield from direction_checks(strata, noise.direction)
    for name, cosine in cosines:
        yield Check(f"the angle with {name}", angle(cosine, dimension))
    for name, one, other in pairs:
        yield Check(f"the angle between {name}", shared(one.direction, other.direction))
        yield Check(f"the sizes of {name}", concordance(one.centred, other.centred))


def coarse_checks(size: Numbers, direction: Numbers) -> Iterator[Check]:
    """Test whether sizes or coordinates of noise lie on a grid."""
    yield Check("repeats of a size", coarse(size[:, None]))
    yield Check("repeats of a coordinate", coarse(direction * size[:, None]))


def _uniform_checks(four: Sequence[Numbers]) -> Iterator[Check]:
    """Test uniform numbers of two calls and two processes: their law, their independence."""
    every = np.concatenate([part.ravel() for part in four])
    yield Check("their law", _ks(np.sort(four[0].ravel())))
    yield Check("their bits", bits(every))
    for name, one, other in _pairs([Split(part, part, part) for part in four]):
        between = (one.size - other.size) % 1
        yield Check(f"the difference of two {name}", _ks(np.sort(between.ravel())))
    yield Check("repeats", repeats([part[..., 0].ravel() for part in four]))


def _pairs(four: Sequence[Split]) -> Iterator[tuple[str, Split, Split]]:
    """Yield what is independent: words of a text, texts, calls, processes."""
    first, again, one, other = four
    for lag in LAGS:
        if lag < first.size.shape[1]:
            one_of, lagged = first.at(np.s_[:, :-lag]), first.at(np.s_[:, lag:])
            yield f"words of a text, {lag} apart", one_of, lagged
    yield "texts", first.at(np.s_[0::2]), first.at(np.s_[1::2])
    yield "calls", first.at(np.s_[:FEW_TEXTS]), again
    yield "processes", one, other


def _axes(table: EmbeddingTable) -> Iterator[tuple[str, Numbers]]:
    """Yield directions: axes, a diagonal, and along the differences of words."""
    every = np.eye(table.dimension)
    yield "the first axis", every[0]
    yield "the last axis", every[-1]
    yield "the diagonal", every.sum(axis=0)
    pairs = np.array(list(combinations(range(len(table.words)), 2)))
    rng = np.random.Generator(np.random.PCG64(0))
    for one, other in rng.choice(pairs, min(DIRECTIONS, len(pairs)), replace=False):
        yield f"the difference of {one} and {other}", table.vectors[other] - table.vectors[one]


def angle(cosine: Numbers, dimension: int) -> float:
    """Between a uniform direction and another: (1 + cos)/2 is Beta((d − 1)/2, (d − 1)/2)."""
    half = (dimension - 1) / 2
    return _ks(betainc(half, half, np.sort((1 + cosine) / 2).clip(0, 1)))


def concordance(one: Numbers, other: Numbers) -> float:
    """Of two independent numbers of median 0, the signs are equal half of the time."""
    return two_sided(binom, ((one > 0) == (other > 0)).sum(), len(one), 0.5)


def tails(size: Numbers, dimension: int) -> Iterator[Check]:
    """Test the smallest and the greatest sizes: of n, the k-th smallest is Beta(k, n + 1 − k)."""
    n = len(size)
    for which, uniform in (
        ("smallest", gamma.cdf(size, dimension)),
        ("greatest", gamma.sf(size, dimension)),
    ):
        uniform = np.partition(uniform, [k - 1 for k in ORDER if k <= n])
        for k in ORDER:
            if k <= n:
                p = two_sided(beta, uniform[k - 1], k, n + 1 - k)
                yield Check(f"the size number {k} of the {which}", float(p))


def by_stratum(codes: Codes, size: Numbers, dimension: int) -> float:
    """Of each stratum of n words, the sum of sizes is Gamma(n·d)."""
    count, total = np.bincount(codes), np.bincount(codes, weights=size)
    tests = two_sided(gamma, total[count > 0], count[count > 0] * dimension)
    return float(min(1.0, tests.size * tests.min()))


def direction_checks(codes: Mapping[str, Codes], unit: Numbers) -> Iterator[Check]:
    """Test directions by stratum: sides and spread of coordinates, and what half of it shows."""
    dimension = unit.shape[1]
    half = (dimension - 1) / 2
    middle = np.sqrt(beta.ppf(0.5, 0.5, half)) if dimension > 1 else 1.0
    above, beyond = unit > 0, np.abs(unit) > middle
    whole = {"all words": np.zeros(len(unit), np.int64)}
    for name, code in {**whole, **codes}.items():
        count = np.bincount(code)
        if len(count) > FEW_GROUPS:
            continue
        order = np.argsort(code, kind="stable")
        present = count[count > 0]
        starts = np.cumsum([0, *present[:-1]])
        for what, mask in (("sides", above), ("spread", beyond)):
            inside = np.add.reduceat(mask[order], starts, axis=0, dtype=np.int64)
            tests = two_sided(binom, inside, present[:, None], 0.5)
            p = float(min(1.0, tests.size * tests.min()))
            yield Check(f"the {what} of its coordinates, by {name}", p)
        found = [
            _sought(unit[order[start : start + n]])
            for start, n in zip(starts, present, strict=True)
            if n >= ENOUGH * dimension
        ]
        if found:
            p = min(1.0, len(found) * min(found))
            yield Check(f"the direction that varies least or most, by {name}", p)


def _sought(unit: Numbers) -> float:
    """Test the directions that stand out in every second word, in the others."""
    one, other = unit[0::2], unit[1::2]
    axes = np.linalg.eigh(one.T @ one)[1]
    mean = one.mean(axis=0)
    tried = [axes[:, 0], axes[:, -1], mean / max(np.linalg.norm(mean), TRIES)]
    return min(1.0, len(tried) * min(angle(other @ axis, unit.shape[1]) for axis in tried))


def shared(one: Numbers, other: Numbers) -> float:
    """Whether directions are independent: by the sum of their cosines, and by each coordinate.

    A cosine is sub-Gaussian of variance 1/d, which bounds the sum. Of each coordinate, the sides
    are equal half of the time.
    """
    n, dimension = one.shape
    if not n:
        return 1.0
    total = float(np.einsum("nd,nd->", one, other))
    bound = 2 * np.exp(-(total**2) * dimension / (2 * n))
    equal = ((one > 0) == (other > 0)).sum(axis=0)
    each = dimension * two_sided(binom, equal, n, 0.5).min()
    return float(min(1.0, 2 * min(bound, each)))


def coarse(numbers: Numbers) -> float:
    """Whether continuous numbers, (n, k), lie on a grid: how many are equal once rounded.

    The density of a size, or of a coordinate, is at most 1/2.
    """
    rounded = np.round(numbers / ROUNDED)
    equal = ROUNDED / 2 * rounded.shape[1]
    again = sum(len(column) - len(np.unique(column)) for column in rounded.T)
    return float(poisson.sf(again - 1, len(rounded) ** 2 / 2 * equal))


def bits(uniform: Numbers) -> float:
    """Of uniform numbers, each bit is set half of the time."""
    integers = (uniform * 2.0**BITS).astype(np.int64)
    count = np.array([(integers >> bit & 1).sum() for bit in range(BITS)])
    return float(min(1.0, BITS * two_sided(binom, count, len(integers), 0.5).min()))


def law_of_size(size: Numbers, dimension: int) -> float:
    """Of noise of density exp(−‖z‖), the size is Gamma(d)."""
    return _ks(gammainc(dimension, np.sort(size)))


def _ks(ranked: Numbers) -> float:
    """Whether numbers in order are uniform, by the exact test of Kolmogorov and Smirnov.

    scipy's `kstest` returns the same, and spends more time on its input than on the test.
    """
    n = len(ranked)
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - ranked).max(), (ranked - steps[:-1]).max())
    return float(kstwo.sf(distance, n))


def repeats(numbers: Sequence[Numbers], equal: float = TRIES) -> float:
    """The p-value of how many continuous numbers are equal to another."""
    every = np.concatenate(numbers)
    return float(poisson.sf(len(every) - len(np.unique(every)) - 1, len(every) ** 2 / 2 * equal))


def forked(function: Callable[[int], Result]) -> tuple[Result, Result]:
    """The function's results of two processes that are forked off this one."""
    context = multiprocessing.get_context("fork")

    def run(process: int, end: Any) -> None:
        end.send(function(process))

    ends, processes = [], []
    for process in range(2):
        receive, send = context.Pipe(duplex=False)
        processes.append(context.Process(target=run, args=(process, send)))
        processes[-1].start()
        send.close()  # so that a process which dies is no silence
        ends.append(receive)
    one, other = (end.recv() for end in ends)
    for started in processes:
        started.join()
    return one, other
