"""Mechanisms, generators and releases that are broken on purpose: the audit catches each.

Chance plays no part in a pass that would be wrong: the audit's false alarms are below 1e-6.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import gamma

from rapt.audit import FALSE_ALARM, Verdict, outcomes, paths, verdict, ways
from rapt.audit.cases import DIMENSIONS, PARAMETERS, UNKNOWN, Subject, points, subject
from rapt.audit.laws import Check
from rapt.privacy import streams as generators
from rapt.privacy.mechanisms import (
    MECHANISMS,
    T2T,
    Mechanism,
    Sampler,
    Space,
    TokenRepresentation,
    mechanism,
)
from rapt.privacy.mechanisms.exponential import CusText, Exponential, SanText, decay
from rapt.privacy.mechanisms.noise import Mahalanobis, Vickrey, spherical_noise
from rapt.privacy.mechanisms.vectors import Adept, SequenceRepresentation
from rapt.privacy.privatizer import Privatizer
from rapt.release import text as release_text
from rapt.release.text import TextPrivatizer

pytestmark = pytest.mark.slow  # some minutes in all
SHARE = FALSE_ALARM / 20
EVERY = [points(dimension) for dimension in DIMENSIONS]
SMALL = EVERY[:1]


def white_box(kind: Mechanism, tables=EVERY, seed: int | None = 0) -> Verdict:
    return verdict(Subject(kind, [], tables), seed, SHARE)


def black_box(kind: Mechanism, draws: int = 40_000) -> Verdict:
    return verdict(subject(kind, [], draws), 0, SHARE)


def kinds_of(found: Verdict) -> str:
    return "; ".join(check.what for check in found.failed)


def spending(kind: type[Mechanism], factor: float) -> Mechanism:
    """The mechanism at η times a factor: its draws are sound, what it makes of them is not."""

    class Spending(kind):
        claim = kind.claim

        def sampler(self, space, eta):
            return super().sampler(space, factor * eta)

        def represent(self, vectors, draws, eta):
            return super().represent(vectors, draws, factor * eta)

    return Spending(**PARAMETERS.get(kind.name, {}))


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (T2T, 1.4),
        (T2T, 1.2),
        (T2T, 1.01),
        (T2T, 0.9),
        (Mahalanobis, 1.2),
        (Vickrey, 1.2),
        (SanText, 1.5),
        (SanText, 1.05),
        (MECHANISMS["tem"], 1.2),
        (MECHANISMS["santext-plus"], 1.2),
        (CusText, 1.2),
        (MECHANISMS["rank-neighbours"], 1.2),
        (TokenRepresentation, 1.2),
        (SequenceRepresentation, 1.2),
        (Adept, 1.2),
    ],
)
def test_mutant_that_spends_another_eta(kind: type[Mechanism], factor: float) -> None:
    assert white_box(spending(kind, factor)).violated


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "truncated-gumbel"])
def test_mutant_that_spends_another_eta_is_seen_in_outcomes_alone(name: str) -> None:
    found = black_box(spending(MECHANISMS[name], 1.7))
    assert found.violated
    if name in ("t2t", "imola", "token-representation"):  # by its loss, whatever its law
        assert any(f.loss > f.bound for f in found.findings)


class Gaussian(T2T):
    """Of equal second moment."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return rng.standard_normal((n, dimension)) * np.sqrt(dimension + 1)


class PerCoordinate(T2T):
    """Laplace noise in each coordinate, of equal second moment."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return rng.laplace(size=(n, dimension)) * np.sqrt((dimension + 1) / 2)


class HalvedAbove64(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return super().draw(rng, n, dimension) / (2 if dimension > 64 else 1)


class Ball(T2T):
    """A direction from the ball, in place of the sphere, under the right size."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return spherical_noise(rng, n, dimension) * rng.random((n, 1)) ** (1 / dimension)


class UniformInBall(T2T):
    """Of the right mean size."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = spherical_noise(rng, n, dimension)
        size = (dimension + 1) * rng.random((n, 1)) ** (1 / dimension)
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * size


class Biased(T2T):
    """One axis is drawn positive in 11 of 20 draws."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = super().draw(rng, n, dimension)
        noise[:, 3] = np.abs(noise[:, 3]) * np.where(rng.random(n) < 0.55, 1, -1)
        return noise


class Flat(T2T):
    """Half as wide along the last axis, of the right size."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = super().draw(rng, n, dimension)
        size = np.linalg.norm(noise, axis=1, keepdims=True)
        noise[:, -1] /= 2
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * size


class SometimesBare(T2T):
    """Without noise for one word of a hundred."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return super().draw(rng, n, dimension) * (rng.random((n, 1)) > 0.01)


class SizeFollowsDirection(T2T):
    """The right size and the right direction, but not of each other's."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = super().draw(rng, n, dimension)
        size = np.sort(np.linalg.norm(noise, axis=1))
        direction = noise / np.linalg.norm(noise, axis=1, keepdims=True)
        return direction[np.argsort(direction[:, 0])] * size[:, None]


class Unshaped(Mahalanobis):
    claim = Mahalanobis.claim

    def sampler(self, space, eta):
        return T2T().sampler(space, eta)


@pytest.mark.parametrize(
    "kind",
    [
        *(Gaussian, PerCoordinate, HalvedAbove64, Ball, UniformInBall, Biased, Flat),
        *(SometimesBare, SizeFollowsDirection, Unshaped),
    ],
)
def test_mutant_of_the_noise(kind: type[Mechanism]) -> None:
    assert white_box(kind()).violated


class OnceForAText(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class OnceForAll(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return super().draw(np.random.default_rng(0), n, dimension)


class Mixed(T2T):
    """Each word's noise shares its direction with that of the word before."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = super().draw(rng, n + 1, dimension)
        mixed = (noise[1:] + noise[:-1] / 3) / np.sqrt(10 / 9)
        size = np.linalg.norm(noise[1:], axis=1, keepdims=True)
        return mixed / np.linalg.norm(mixed, axis=1, keepdims=True) * size


class VectorsOnceForAText(TokenRepresentation):
    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class UniformOnceForAText(SanText):
    claim = SanText.claim

    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class UniformOfEightBits(SanText):
    claim = SanText.claim

    def draw(self, rng, n, dimension):
        return np.floor(super().draw(rng, n, dimension) * 256) / 256


class UniformSquared(SanText):
    claim = SanText.claim

    def draw(self, rng, n, dimension):
        return super().draw(rng, n, dimension) ** 1.2


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (OnceForAText, "two words of a text"),
        (OnceForAll, "two texts"),
        (OnceForAll, "two calls"),
        (OnceForAll, "two processes"),
        (Mixed, "the angle between two words of a text"),
        (VectorsOnceForAText, "two words of a text"),
        (UniformOnceForAText, "two words of a text"),
        (UniformOfEightBits, "repeats"),
        (UniformSquared, "their law"),
    ],
)
def test_mutant_whose_draws_depend_on_each_other(kind: type[Mechanism], shown: str) -> None:
    assert shown in kinds_of(white_box(kind(), SMALL))


class WithoutTheWord(Vickrey):
    """Never the word itself, as Vickrey is often coded."""

    claim = Vickrey.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            own, near = search(vectors), search.nearest(vectors + draws[:, :-1] / eta, 2)
            return np.where(near[:, 0] == own, near[:, 1], near[:, 0])

        return release


class AmongTheNearest(T2T):
    """Candidates cut to the three nearest to the word."""

    claim = T2T.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            listed = search.nearest(vectors, 3)
            offsets = space.vectors[listed] - (vectors + draws / eta)[:, None]
            return listed[np.arange(len(vectors)), np.linalg.norm(offsets, axis=2).argmin(axis=1)]

        return release


class Unseen(T2T):
    """Its own search, which no audit can watch."""

    claim = T2T.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        def release(vectors, draws):
            offsets = space.vectors - (vectors + draws / eta)[:, None]
            return np.linalg.norm(offsets, axis=2).argmin(axis=1)

        return release


@pytest.mark.parametrize("kind", [WithoutTheWord, AmongTheNearest, Unseen])
def test_mutant_whose_search_sees_the_word(kind: type[Mechanism]) -> None:
    assert white_box(kind(), SMALL).violated
    if kind is not Unseen:
        assert any(f.loss > f.bound for f in black_box(kind()).findings)


class WithoutHalf(SanText):
    """exp(−η·d), though the sum of weights depends on the word too."""

    claim = SanText.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        return Exponential(space.vectors, decay(eta))


class Unscaled(CusText):
    """Distances of a block as they are, not scaled to [0, 1]."""

    claim = CusText.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        return Exponential(space.vectors, decay(eta / 2))


@pytest.mark.parametrize("kind", [WithoutHalf, Unscaled])
def test_mutant_of_the_weights(kind: type[Mechanism]) -> None:
    assert "exact probabilities" in kinds_of(white_box(kind(), SMALL))


class PassesUnknown(Privatizer):
    def privatize(self, texts):
        for text in texts:
            (released,) = super().privatize([text])
            yield [
                after if before in self.table.words else before
                for before, after in zip(text.words, released, strict=True)
            ]


def test_mutant_that_passes_unknown_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "Privatizer", PassesUnknown)
    found = black_box(T2T())
    shown = [f for f in found.findings if f.loss > f.bound]
    assert any(f.event == "a word outside the table" for f in shown)
    assert all(UNKNOWN in (f.one, f.other) for f in shown)


def entropy(monkeypatch: pytest.MonkeyPatch, source: Callable[[int], bytes]) -> None:
    """Give every generator of a release its key from this source."""
    monkeypatch.setattr(generators, "os", SimpleNamespace(urandom=source))


def few_states(states: int) -> Callable[[int], bytes]:
    return lambda n: bytes([os.urandom(1)[0] % states]) * n


def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys from a generator of the process, whose state a fork copies."""
    entropy(monkeypatch, np.random.default_rng().bytes)


def test_mutant_generator_of_256_states(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy(monkeypatch, few_states(256))
    assert "repeats" in kinds_of(white_box(T2T(), SMALL, seed=None))
    assert "repeats" in kinds_of(white_box(SanText(), SMALL, seed=None))


def test_mutant_whose_forks_share_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    shared(monkeypatch)
    found = kinds_of(white_box(T2T(), SMALL, seed=None))
    assert "two processes" in found
    assert "two calls" not in found


def cached(release):
    """Each text is released once: the same text becomes the same again."""
    known: dict[str, list] = {}

    def release_tagged(self, raw, texts, *names, **how):
        for one, text in zip(raw, texts, strict=True):
            key = str(text)
            known[key] = known.get(key) or release(self, [one], [text], *names, **how)[0]
        return [known[str(text)] for text in texts]

    return release_tagged


class SpendsMore(Privatizer):
    def __init__(self, *, eta, **how):
        super().__init__(eta=1.4 * eta, **how)


def verbatim(chosen: Callable[[str, int, int], bool], share: float = 1.0):
    """Words of which some stand as they are, by word, place and number of the text."""

    def broken(release):
        def release_tagged(self, raw, texts, *names, **more):
            rng = np.random.default_rng()
            return [
                [
                    word._replace(released=word.original.lower())
                    if chosen(word.original, place, number) and rng.random() < share
                    else word
                    for place, word in enumerate(text)
                ]
                for number, text in enumerate(release(self, raw, texts, *names, **more))
            ]

        return release_tagged

    return broken


def beyond_a_piece(release):
    """Only the first piece of a text is privatized."""

    def release_tagged(self, raw, texts, *names, **more):
        released = release(self, raw, texts, *names, **more)
        return [
            [
                word if place < len(parts[0].words) else word._replace(released=word.original)
                for place, word in enumerate(text)
            ]
            for parts, text in zip(texts, released, strict=True)
        ]

    return release_tagged


RELEASES = {
    "cached": cached,
    "long words verbatim": verbatim(lambda word, *_: len(word) > 6),
    "words of one letter verbatim": verbatim(lambda word, *_: len(word) == 1),
    "capitalised words verbatim": verbatim(lambda word, *_: word[:1].isupper()),
    "words beyond ASCII verbatim": verbatim(lambda word, *_: not word.isascii()),
    "words with a digit verbatim": verbatim(lambda word, *_: any(map(str.isdigit, word))),
    "the first word of a text": verbatim(lambda _, place, __: not place),
    "every 1,000th text": verbatim(lambda _, __, number: number % 1000 == 999),
    "2 % of words": verbatim(lambda *_: True, 0.02),
    "2 % of capitalised words": verbatim(lambda word, *_: word[:1].isupper(), 0.02),
    "beyond a piece": beyond_a_piece,
}


def noise_of(change: Callable) -> type[Privatizer]:
    """A privatizer whose noise is changed word by word, after it was drawn."""

    class Changed(Privatizer):
        def _replace(self, words, vectors, sources, batch):
            real, mechanism = type(self.mechanism), self.mechanism

            class Drawing(real):
                claim = real.claim

                def draw(self, rng, n, dimension):
                    drawn = mechanism.draw(rng, n, dimension)
                    return change(drawn, self.text, table)

            table, drawing = self.table, Drawing()
            texts = iter(batch)

            class Ordered(Drawing):
                claim = real.claim

                @property
                def text(self):
                    return next(texts).words

            self.mechanism = Ordered()
            del drawing
            try:
                super()._replace(words, vectors, sources, batch)
            finally:
                self.mechanism = mechanism

    return Changed


def scaled(where: Callable[[str], bool], factor: float) -> Callable:
    def change(noise, words, _table):
        return noise * np.where([where(word) for word in words], factor, 1.0)[:, None]

    return change


def mixed(lag: int) -> Callable:
    """Each word's direction shares some with that of the word `lag` before."""

    def change(noise, _words, _table):
        size = np.linalg.norm(noise, axis=1, keepdims=True)
        unit = noise / size
        unit[lag:] += 0.3 * unit[:-lag]
        return unit / np.linalg.norm(unit, axis=1, keepdims=True) * size

    return change


def along_a_difference(noise, _words, table):
    """No noise along the difference of two words."""
    axis = np.asarray(table.vectors[7], np.float64) - table.vectors[99]
    axis /= np.linalg.norm(axis)
    return noise - (noise @ axis)[:, None] * axis


def cut(quantile: float) -> Callable:
    def change(noise, _words, _table):
        size = np.linalg.norm(noise, axis=1, keepdims=True)
        most = gamma.ppf(quantile, noise.shape[1])
        return noise * np.minimum(1, most / size)

    return change


def coarse_size(noise, _words, _table):
    """The size of the noise is drawn of 2^20 numbers."""
    size = np.linalg.norm(noise, axis=1, keepdims=True)
    uniform = (np.floor(gamma.cdf(size, noise.shape[1]) * 2**20) + 0.5) / 2**20
    return noise / size * gamma.ppf(uniform, noise.shape[1])


PRIVATIZERS = {
    "eta": SpendsMore,
    "half for long words": noise_of(scaled(lambda word: len(word) > 6, 0.5)),
    "half for words with a capital": noise_of(scaled(lambda word: word.lower() != word, 0.5)),
    "eta doubled for rare words": noise_of(scaled(lambda word: hash(word) % 10 == 0, 0.5)),
    "eta times 1.1 beyond ASCII": noise_of(scaled(lambda word: not word.isascii(), 1 / 1.1)),
    "words 1 apart": noise_of(mixed(1)),
    "words 2 apart": noise_of(mixed(2)),
    "words 3 apart": noise_of(mixed(3)),
    "one direction": noise_of(along_a_difference),
    "tails at 99.9 %": noise_of(cut(0.999)),
    "float16": noise_of(lambda noise, *_: noise.astype(np.float16).astype(np.float64)),
    "float32": noise_of(lambda noise, *_: noise.astype(np.float32).astype(np.float64)),
    "20 bits": noise_of(coarse_size),
}
SOME = ("files", "category")


@pytest.mark.parametrize("broken", [*RELEASES, *PRIVATIZERS])
def test_mutant_of_a_release(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that depend on the word, its place or its text, and those of the noise."""
    if broken in RELEASES:
        release = RELEASES[broken](TextPrivatizer.release_tagged)
        monkeypatch.setattr(TextPrivatizer, "release_tagged", release)
        some = ("files", "spaCy")  # spaCy: of its words alone
    else:
        monkeypatch.setattr(release_text, "Privatizer", PRIVATIZERS[broken])
        some = ("files",)
    if broken == "beyond a piece":
        some = ("files",)  # spaCy's documents have other pieces
    caught = {name for name, checks, *_ in paths.released(some) if violated(checks)}
    assert caught == set(some)


def violated(checks: list[Check]) -> bool:
    return Verdict("", checks=checks, level=SHARE / len(checks)).violated


class AmongAllWords(Privatizer):
    """PCT2T that takes the whole table for each category."""

    def spaces(self):
        return [self._whole()] * len(super().spaces())

    def __init__(self, **options):
        super().__init__(**options)
        self._groups = [self._groups[-1]] * len(self._groups)


def test_mutant_that_leaves_the_category(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_text, "Privatizer", AmongAllWords)
    ((_, checks, *_),) = paths.released(["category"])
    assert violated(checks)


@pytest.mark.parametrize("broken", ["none", "16 states", "shared by forks"])
def test_mutant_generator_on_the_way_of_a_release(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "GENERATORS", 1 << 10)
    every = {"by files", "by workers", "by spaCy", "by datasets.map", "by category"}
    expected = set()
    if broken == "16 states":
        entropy(monkeypatch, few_states(16))
        expected = {*every, "generator"}
    elif broken == "shared by forks":
        shared(monkeypatch)
        expected = {"by workers", "by spaCy", "by datasets.map", "generator"}
    assert {found.name for found in ways(SHARE) if found.violated} == expected


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_the_mutants_are_made_of_is_sound(name: str) -> None:
    """Or the tests above would show nothing."""
    sound = subject(mechanism(name, **PARAMETERS.get(name, {})), EVERY, 4000)
    assert not verdict(sound, None, SHARE).violated
