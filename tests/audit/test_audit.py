"""The audit catches broken mechanisms and clears sound ones. False alarms: below 1e-6 each."""

from itertools import combinations

import numpy as np
import pytest

from rapt import audit as module
from rapt.audit import FALSE_ALARM, Case, Choice, Finding, Verdict, audit, cases_of, draws
from rapt.audit.cases import BUILT_IN, UNKNOWN, built_in
from rapt.audit.evidence import Evidence, View, best_evidence, loss_bound
from rapt.privacy.mechanisms import MECHANISMS, T2T, Mechanism, Sampler, Space
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.mechanisms.vectors import TokenRepresentation
from rapt.privacy.privatizer import Privatizer

CLAIM_VIOLATED = "refuted for any two inputs, see caveat"
PAIRS = list(combinations([*BUILT_IN[::4], UNKNOWN], 2))


def verdict(made: Mechanism, eta: float, draws: int = 20_000) -> Verdict:
    case = Case(made, eta, built_in(), PAIRS, PAIRS[:1], draws)
    (found,) = audit([case], seed=0).verdicts
    return found


def violations(found: Verdict, words: int) -> list[Finding]:
    """Those with this many words in each input."""
    return [f for f in found.findings if f.loss > f.bound and sum(map(len, f.one)) == words]


class FromBall(T2T):
    """Noise uniform in a ball, of the right mean radius."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = spherical_noise(rng, n, dimension)
        radius = (dimension + 1) * rng.random((n, 1)) ** (1 / dimension)
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * radius


class BallTimesGamma(T2T):
    """A direction from the ball, in place of the sphere, under the right radius."""

    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return spherical_noise(rng, n, dimension) * rng.random((n, 1)) ** (1 / dimension)


class GammaOfShape1(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        noise = spherical_noise(rng, n, dimension)
        radius = rng.standard_gamma(1, size=(n, 1))
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * radius


class TimesEta(T2T):
    """η where 1/η belongs."""

    claim = T2T.claim

    def sampler(self, space, eta):
        return super().sampler(space, 1 / eta)


class HalfAsMuchAgain(T2T):
    """Noise for 1.5·η: what an audit without power would let pass."""

    claim = T2T.claim

    def sampler(self, space, eta):
        return super().sampler(space, 1.5 * eta)


class WithoutTheWord(T2T):
    """Never the word itself, as Vickrey is often coded."""

    claim = T2T.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            own, near = search(vectors), search.nearest(vectors + draws / eta, 2)
            return np.where(near[:, 0] == own, near[:, 1], near[:, 0])

        return release


class AmongTheNearest(T2T):
    """Candidates cut to the six nearest to the word."""

    claim = T2T.claim

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            listed = search.nearest(vectors, 6)
            offsets = space.vectors[listed] - (vectors + draws / eta)[:, None]
            return listed[np.arange(len(vectors)), np.linalg.norm(offsets, axis=2).argmin(axis=1)]

        return release


@pytest.mark.parametrize(
    ("broken", "eta"),
    [
        (FromBall, 2.0),
        (BallTimesGamma, 2.0),
        (GammaOfShape1, 0.5),
        (GammaOfShape1, 2.0),
        (TimesEta, 0.5),
        (WithoutTheWord, 0.5),
        (WithoutTheWord, 2.0),
        (AmongTheNearest, 0.5),
        (AmongTheNearest, 2.0),
    ],
)
def test_wrong_noise_and_wrong_candidates_are_caught(broken: type[T2T], eta: float) -> None:
    found = verdict(broken(), eta)
    assert found.text == "VIOLATED"
    assert violations(found, words=1)


def test_half_as_much_again_is_caught_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """As evidence/audit.md says of the audit's power."""
    monkeypatch.setitem(MECHANISMS, "t2t", HalfAsMuchAgain)
    assert audit(cases_of(Choice(mechanisms=["t2t"])), seed=0).violated


class OnceForAText(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class OnceForAll(T2T):
    claim = T2T.claim

    def draw(self, rng, n, dimension):
        return super().draw(np.random.default_rng(0), n, dimension)


class VectorsOnceForAText(TokenRepresentation):
    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class VectorsOnceForAll(TokenRepresentation):
    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return super().draw(np.random.default_rng(0), n, dimension)


@pytest.mark.parametrize(
    ("broken", "texts"),
    [(OnceForAText, 1), (OnceForAll, 2), (VectorsOnceForAText, 1), (VectorsOnceForAll, 2)],
)
@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_noise_that_is_used_twice_is_caught(
    broken: type[Mechanism], texts: int, eta: float
) -> None:
    """Each word by itself may have the right law; two together do not."""
    shown = violations(verdict(broken(), eta), words=2)
    assert any(len(finding.one) == texts for finding in shown)


class VectorShape1(TokenRepresentation):
    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return GammaOfShape1().draw(rng, n, dimension)


class PerCoordinate(TokenRepresentation):
    """Laplace noise for the sum of absolute coordinates, stated for the Euclidean distance."""

    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return rng.laplace(size=(n, dimension))


class VectorTimesEta(TokenRepresentation):
    claim = TokenRepresentation.claim

    def represent(self, vectors, draws, eta):
        return super().represent(vectors, draws, 1 / eta)


class VectorHalfAsMuchAgain(TokenRepresentation):
    claim = TokenRepresentation.claim

    def represent(self, vectors, draws, eta):
        return super().represent(vectors, draws, 1.5 * eta)


class SometimesBare(TokenRepresentation):
    """Without noise for two words of a hundred."""

    claim = TokenRepresentation.claim

    def draw(self, rng, n, dimension):
        return super().draw(rng, n, dimension) * (rng.random((n, 1)) > 0.02)


@pytest.mark.parametrize(
    ("broken", "eta"),
    [
        (VectorShape1, 2.0),
        (PerCoordinate, 2.0),
        (VectorTimesEta, 0.5),
        (VectorHalfAsMuchAgain, 2.0),
        (SometimesBare, 0.5),
    ],
)
def test_wrong_vectors_are_caught(broken: type[Mechanism], eta: float) -> None:
    assert violations(verdict(broken(), eta), words=1)


class PassesUnknown(Privatizer):
    def privatize(self, texts):
        for text in texts:
            (released,) = super().privatize([text])
            yield [
                after if before in self.table.words else before
                for before, after in zip(text.words, released, strict=True)
            ]


def test_unknown_words_that_pass_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "Privatizer", PassesUnknown)
    found = verdict(T2T(), 2.0)
    assert found.text == "VIOLATED"
    shown = violations(found, words=1)
    assert any(finding.event == UNKNOWN for finding in shown)
    assert all(((UNKNOWN,),) in (finding.one, finding.other) for finding in shown)


@pytest.fixture(scope="module")
def whole() -> dict[str, Verdict]:
    """Every mechanism as by default, with fewer draws; one claim needs more."""
    made = cases_of(Choice(draws=4000))
    quick = [case for case in made if case.draws < 100_000]
    return {v.mechanism.name: v for v in audit(quick, seed=1).verdicts}


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_sound_laws_hold_and_unsound_claims_are_shown(name: str, whole: dict[str, Verdict]) -> None:
    found = whole[name]
    assert not found.violated
    if name == "truncated-gumbel":
        return
    if found.mechanism.claim.published:
        assert found.text == CLAIM_VIOLATED
        return
    assert found.text == "holds"
    # Of an audit without power nothing would follow.
    assert found.strongest
    assert found.strongest.loss > 0.3 * found.strongest.bound


@pytest.mark.slow
def test_the_claim_of_truncated_gumbel_is_refuted() -> None:
    made = [c for c in cases_of(Choice(mechanisms=["truncated-gumbel"])) if c.draws > 100_000]
    (found,) = audit(made, seed=0).verdicts
    assert found.text == CLAIM_VIOLATED


def finding(loss: float, bound: float, claim: float) -> Finding:
    return Finding(1.0, (("a",),), (("b",),), loss, "a", bound, claim)


@pytest.mark.parametrize(
    ("findings", "text", "strongest"),
    [
        ([finding(1, 2, 2), finding(1, 1.5, 1.5)], "holds", 1),
        ([finding(1, 2, 2), finding(1, 9, 0.9)], "refuted for any two inputs, see caveat", 1),
        (
            [finding(1, np.inf, 0.5), finding(0, 1, 1)],
            "refuted for any two inputs, see caveat",
            0,
        ),
        ([finding(1, 9, 0.1), finding(1.1, 1, 1)], "VIOLATED", 1),
        ([finding(0.1, 0, 0), finding(1, 2, 2)], "VIOLATED", 0),
        ([finding(0, 0, 0), finding(0, np.inf, 1)], "holds", 0),
    ],
)
def test_a_verdict_tells_the_law_from_the_claim(
    findings: list[Finding], text: str, strongest: int
) -> None:
    found = Verdict(T2T(), findings)
    assert found.text == text
    assert found.violated == (text == "VIOLATED")
    assert found.strongest is findings[strongest]


def test_the_whole_audit_has_the_stated_false_alarm_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []

    def recorded(view: View, bound: float, level: float) -> Evidence:
        levels.append(level)
        return best_evidence(view, bound, level)

    monkeypatch.setattr(module, "best_evidence", recorded)
    some = cases_of(Choice(mechanisms=["t2t", "token-representation"], draws=200))
    found = audit(some, seed=0)
    assert sum(levels) <= FALSE_ALARM <= 1e-6
    assert max(levels) == min(levels)
    assert found.events >= len(levels)
    # Each view's level is shared by its events.
    view = View(np.arange(2000) % 2, np.zeros(2000, int), str)
    lone = loss_bound(500, 1000, 0, 1000, 1e-9)
    assert best_evidence(view, 0.0, 1e-9).loss < lone
