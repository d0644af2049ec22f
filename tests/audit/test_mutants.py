"""Mechanisms and generators that are broken on purpose: the audit catches each.

Chance plays no part in a pass that would be wrong: the audit's false alarms are below 1e-6. What
the mutants are made of is sound: test_audit.py.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rapt.audit import FALSE_ALARM, Verdict, verdict
from rapt.audit.cases import DIMENSIONS, PARAMETERS, UNKNOWN, Subject, points, subject
from rapt.privacy.mechanisms import MECHANISMS, T2T, Mechanism, Sampler, Space, TokenRepresentation
from rapt.privacy.mechanisms.exponential import CusText, Exponential, SanText, decay
from rapt.privacy.mechanisms.noise import Mahalanobis, Vickrey
from rapt.privacy.mechanisms.vectors import Adept, SequenceRepresentation
from rapt.privacy.privatizer import Privatizer
from tests.audit.broken_generators import entropy, few_states, shared

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

        def writer(self, table, eta):
            return super().writer(table, factor * eta)

    return Spending(**PARAMETERS.get(kind.name, {}))


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (T2T, 1.01),
        (T2T, 0.9),
        (Mahalanobis, 1.2),
        (Vickrey, 1.2),
        (SanText, 1.05),
        (MECHANISMS["tem"], 1.2),
        (MECHANISMS["santext-plus"], 1.2),
        (CusText, 1.2),
        (MECHANISMS["rank-neighbours"], 1.2),
        (TokenRepresentation, 1.2),
        (SequenceRepresentation, 1.2),
        (Adept, 1.2),
        (MECHANISMS["gaussian"], 1.2),
        (MECHANISMS["split"], 1.2),
        (MECHANISMS["dp-forward"], 1.2),
        (MECHANISMS["dp-forward-as-coded"], 1.2),
    ],
)
def test_mutant_that_spends_another_eta(kind: type[Mechanism], factor: float) -> None:
    assert white_box(spending(kind, factor)).violated


# Without a bound, or with one far above the loss that few draws can show.
OUT_OF_REACH = (
    "truncated-gumbel",
    "cape-as-coded",
    "dpnr-as-coded",
    "ome-as-written",
    "gaussian",
    "sap",
    "privtune",
    "dp-forward",
    "dp-forward-as-coded",
)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in OUT_OF_REACH])
def test_mutant_that_spends_another_eta_is_seen_in_outcomes_alone(name: str) -> None:
    found = black_box(spending(MECHANISMS[name], 1.7))
    assert found.violated
    if name in ("t2t", "imola", "token-representation"):  # by its loss, whatever its law
        assert any(f.loss > f.bound for f in found.findings)


def drawing(kind: type[Mechanism], draw: Callable) -> Mechanism:
    """The mechanism with other draws, made of its own: `draw(own, rng, n, dimension)`."""

    class Drawing(kind):
        claim = kind.claim

        def draw(self, rng, n, dimension):
            return draw(super().draw, rng, n, dimension)

    return Drawing()


def sized(size, noise):
    """Noise of these sizes, in its own directions."""
    return noise / np.linalg.norm(noise, axis=1, keepdims=True) * size


def sizes(noise):
    return np.linalg.norm(noise, axis=1, keepdims=True)


def biased(own, rng, n, dimension):
    noise = own(rng, n, dimension)
    noise[:, 3] = np.abs(noise[:, 3]) * np.where(rng.random(n) < 0.55, 1, -1)
    return noise


def flat(own, rng, n, dimension):
    noise = own(rng, n, dimension)
    size = sizes(noise)
    noise[:, -1] /= 2
    return sized(size, noise)


def sorted_by_direction(own, rng, n, dimension):
    noise = own(rng, n, dimension)
    size = np.sort(sizes(noise), axis=0)
    direction = sized(1, noise)
    return direction[np.argsort(direction[:, 0])] * size


NOISES: dict[str, Callable] = {
    "Gaussian of equal second moment": lambda own, rng, n, d: (
        rng.standard_normal((n, d)) * np.sqrt(d + 1)
    ),
    "Laplace noise in each coordinate, of equal second moment": lambda own, rng, n, d: (
        rng.laplace(size=(n, d)) * np.sqrt((d + 1) / 2)
    ),
    "halved above 64 dimensions": lambda own, rng, n, d: own(rng, n, d) / (2 if d > 64 else 1),
    "a direction from the ball, not the sphere": lambda own, rng, n, d: (
        own(rng, n, d) * rng.random((n, 1)) ** (1 / d)
    ),
    "uniform in a ball, of the right mean size": lambda own, rng, n, d: sized(
        (d + 1) * rng.random((n, 1)) ** (1 / d), own(rng, n, d)
    ),
    "one axis positive in 11 of 20 draws": biased,
    "half as wide along the last axis, of the right size": flat,
    "none for one word of a hundred": lambda own, rng, n, d: (
        own(rng, n, d) * (rng.random((n, 1)) > 0.01)
    ),
    "a size that follows the direction": sorted_by_direction,
}


class Unshaped(Mahalanobis):
    claim = Mahalanobis.claim

    def sampler(self, space, eta):
        return T2T().sampler(space, eta)


@pytest.mark.parametrize("noise", NOISES)
def test_mutant_of_the_noise(noise: str) -> None:
    assert white_box(drawing(T2T, NOISES[noise])).violated


def test_mutant_of_the_noise_s_shape() -> None:
    assert white_box(Unshaped()).violated


def once_for_a_text(own, rng, n, dimension):
    return np.repeat(own(rng, 1, dimension), n, axis=0)


def once_for_all(own, rng, n, dimension):
    return own(np.random.default_rng(0), n, dimension)


def mixed_with_the_word_before(own, rng, n, dimension):
    noise = own(rng, n + 1, dimension)
    return sized(sizes(noise[1:]), (noise[1:] + noise[:-1] / 3) / np.sqrt(10 / 9))


def of_eight_bits(own, rng, n, dimension):
    return np.floor(own(rng, n, dimension) * 256) / 256


def squared(own, rng, n, dimension):
    return own(rng, n, dimension) ** 1.2


@pytest.mark.parametrize(
    ("kind", "draw", "shown"),
    [
        (T2T, once_for_a_text, "two words of a text"),
        (T2T, once_for_all, "two texts"),
        (T2T, once_for_all, "two calls"),
        (T2T, once_for_all, "two processes"),
        (T2T, mixed_with_the_word_before, "the angle between two words of a text"),
        (TokenRepresentation, once_for_a_text, "two words of a text"),
        (SanText, once_for_a_text, "two words of a text"),
        (SanText, of_eight_bits, "repeats"),
        (SanText, squared, "their law"),
    ],
)
def test_mutant_whose_draws_depend_on_each_other(
    kind: type[Mechanism], draw: Callable, shown: str
) -> None:
    assert shown in kinds_of(white_box(drawing(kind, draw), SMALL))


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
    def release(self, texts):
        for text in texts:
            (released,) = super().release([text])
            words = [
                after if before in self.table.words else before
                for before, after in zip(text.words, released.words, strict=True)
            ]
            yield replace(released, words=words)


class OfKnownWords(T2T):
    claim = T2T.claim

    def privatizer(self, **how):
        return PassesUnknown(mechanism=self, **how)


def test_mutant_that_passes_unknown_words() -> None:
    found = black_box(OfKnownWords())
    shown = [f for f in found.findings if f.loss > f.bound]
    assert any(f.event == "a word outside the table" for f in shown)
    assert all(UNKNOWN in (f.one, f.other) for f in shown)


def test_mutant_generator_of_256_states(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy(monkeypatch, few_states(256))
    assert "repeats" in kinds_of(white_box(T2T(), SMALL, seed=None))
    assert "repeats" in kinds_of(white_box(SanText(), SMALL, seed=None))


def test_mutant_whose_forks_share_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    shared(monkeypatch)
    found = kinds_of(white_box(T2T(), SMALL, seed=None))
    assert "two processes" in found
    assert "two calls" not in found
