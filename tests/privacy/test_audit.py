"""The audit catches broken mechanisms and clears sound ones. False alarms: below 1e-6 each."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from rapt.cli import app
from rapt.privacy import audit as module
from rapt.privacy.audit import FALSE_ALARM, Case, Choice, Finding, Verdict, audit, cases_of, draws
from rapt.privacy.audit.cases import BUILT_IN, UNKNOWN, built_in, space
from rapt.privacy.audit.evidence import Evidence, View, best_evidence, loss_bound
from rapt.privacy.mechanisms import MECHANISMS, T2T, Mechanism, Sampler, Space, mechanism
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.mechanisms.vectors import TokenRepresentation
from rapt.privacy.privatizer import Privatizer
from rapt.utils.errors import RaptError
from tests.conftest import ROOT

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

    def draw(self, rng, n, dimension):
        noise = spherical_noise(rng, n, dimension)
        radius = (dimension + 1) * rng.random((n, 1)) ** (1 / dimension)
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * radius


class BallTimesGamma(T2T):
    """A direction from the ball, in place of the sphere, under the right radius."""

    def draw(self, rng, n, dimension):
        return spherical_noise(rng, n, dimension) * rng.random((n, 1)) ** (1 / dimension)


class GammaOfShape1(T2T):
    def draw(self, rng, n, dimension):
        noise = spherical_noise(rng, n, dimension)
        radius = rng.standard_gamma(1, size=(n, 1))
        return noise / np.linalg.norm(noise, axis=1, keepdims=True) * radius


class TimesEta(T2T):
    """η where 1/η belongs."""

    def sampler(self, space, eta):
        return super().sampler(space, 1 / eta)


class HalfAsMuchAgain(T2T):
    """Noise for 1.5·η: what an audit without power would let pass."""

    def sampler(self, space, eta):
        return super().sampler(space, 1.5 * eta)


class WithoutTheWord(T2T):
    """Never the word itself, as Vickrey is often coded."""

    def sampler(self, space: Space, eta: float) -> Sampler:
        search = space.search()

        def release(vectors, draws):
            own, near = search(vectors), search.nearest(vectors + draws / eta, 2)
            return np.where(near[:, 0] == own, near[:, 1], near[:, 0])

        return release


class AmongTheNearest(T2T):
    """Candidates cut to the six nearest to the word."""

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
    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class OnceForAll(T2T):
    def draw(self, rng, n, dimension):
        return super().draw(np.random.default_rng(0), n, dimension)


class VectorsOnceForAText(TokenRepresentation):
    def draw(self, rng, n, dimension):
        return np.repeat(super().draw(rng, 1, dimension), n, axis=0)


class VectorsOnceForAll(TokenRepresentation):
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
    def draw(self, rng, n, dimension):
        return GammaOfShape1().draw(rng, n, dimension)


class PerCoordinate(TokenRepresentation):
    """Laplace noise for the sum of absolute coordinates, stated for the Euclidean distance."""

    def draw(self, rng, n, dimension):
        return rng.laplace(size=(n, dimension))


class VectorTimesEta(TokenRepresentation):
    def represent(self, vectors, draws, eta):
        return super().represent(vectors, draws, 1 / eta)


class VectorHalfAsMuchAgain(TokenRepresentation):
    def represent(self, vectors, draws, eta):
        return super().represent(vectors, draws, 1.5 * eta)


class SometimesBare(TokenRepresentation):
    """Without noise for two words of a hundred."""

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
    if found.mechanism.caveat:
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


def test_the_bound_on_a_loss_is_clopper_and_pearsons() -> None:
    for hits, others in ((0, 5), (5, 0), (7, 3), (100, 100), (60, 100)):
        low, high = (binomtest(k, 100).proportion_ci(1 - 0.01, "exact") for k in (hits, others))
        with np.errstate(divide="ignore"):
            expected = np.log(low.low) - np.log(high.high)
        assert loss_bound(hits, 100, others, 100, 0.01) == pytest.approx(expected)


def test_the_bound_covers_the_loss_of_a_known_channel() -> None:
    """At the rate it states, and not much more often: 20,000 audits of one event."""
    rng, level, n = np.random.default_rng(0), 0.1, 500
    p, q = 0.4, 0.1
    shown = loss_bound(rng.binomial(n, p, 20_000), n, rng.binomial(n, q, 20_000), n, level)
    wrong = (shown > np.log(p / q)).mean()
    assert 0.0005 < wrong < level
    assert shown.mean() > 0.7 * np.log(p / q)


@pytest.mark.parametrize("outputs", [2, 200])
def test_choosing_events_costs_no_false_alarms(outputs: int) -> None:
    """Equal laws, so a loss of 0; with events tested where they are chosen, nearly all fail."""
    rng, level, audits = np.random.default_rng(0), 0.3, 400
    alarms = 0
    for _ in range(audits):
        one, other = rng.integers(outputs, size=(2, 2000))
        alarms += best_evidence(View(one, other, str), 0.0, level).loss > 0
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM


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


@pytest.mark.parametrize(("size", "bound"), [(1000, 0.3), (50, np.inf)])
def test_a_small_loss_spread_over_many_outputs_is_shown(size: int, bound: float) -> None:
    """No single output shows it: their union does, be it chosen by the bound or without one."""
    rng, n = np.random.default_rng(0), 40_000
    one = rng.integers(size, size=n)
    tilted = np.where(np.arange(size) < size / 2, 0.6, 1.4) / size
    other = rng.choice(size, n, p=tilted)
    found = best_evidence(View(one, other, lambda codes: str(len(codes))), bound, 1e-9)
    assert found.loss > 0.3
    assert int(found.event) > 0.3 * size


def test_draws_are_those_of_a_release() -> None:
    """A seed repeats them; without one they never do."""
    some = replace(cases_of(Choice(mechanisms=["t2t"]))[0], draws=4000)
    losses = [
        [f.loss for f in audit([some], seed).verdicts[0].findings] for seed in (1, 1, None, None)
    ]
    assert losses[0] == losses[1]
    assert losses[2] != losses[3]


def test_the_small_space_keeps_the_words_of_the_table() -> None:
    table, words = space(Choice(dimensions=2))
    assert words == list(BUILT_IN) == table.words
    off = np.linalg.norm(table.vectors[:, None] - table.vectors, axis=2)[np.triu_indices(12, 1)]
    assert np.median(off) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (Choice(mechanisms=["tt"]), "mechanism: got 'tt', expected one of adept"),
        (Choice(words=["thre"]), "words: got 'thre', expected words of the table. Did you mean"),
        (Choice(dimensions=12), "dimensions: got 12, expected 1 to 11 for 12 words."),
        (Choice(etas=[0]), "eta: got 0, expected a number above 0"),
        (Choice(draws=1), "draws: got 1, expected 2 or more."),
    ],
)
def test_errors_say_what_is_allowed(choice: Choice, line: str) -> None:
    with pytest.raises(RaptError) as error:
        cases_of(choice)
    assert str(error.value).startswith(line)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, args)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, done.output

    return run


def test_the_command_prints_and_writes_its_verdicts(run: Callable, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    options = ["--draws", "2000", "--seed", "0", "--json", str(out)]
    code, printed = run("audit", "--mechanism", "santext", "--mechanism", "custext", *options)
    assert code == 0
    assert "1 - 1e-06" in printed
    content = json.loads(out.read_text())
    assert content["false_alarm"] == 1e-6
    verdicts = {v["mechanism"]: v for v in content["verdicts"]}
    assert verdicts["santext"]["verdict"] == "holds"
    assert verdicts["custext"]["verdict"].startswith("refuted")
    assert any(f["bound"] is None for f in verdicts["custext"]["findings"])
    assert all(f["loss"] <= f["bound"] for f in verdicts["santext"]["findings"])


def test_the_command_fails_on_a_violation(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "t2t", WithoutTheWord)
    code, printed = run("audit", "--mechanism", "t2t", "--draws", "2000", "--seed", "0")
    assert code == 1
    assert "VIOLATED" in printed
    shown = " ".join(printed.split())
    line = r"got P\[\w.*\] at least exp\(.*\) times as likely, expected at most exp\("
    assert re.search(line, shown)


def test_the_command_audits_chosen_words_of_a_table(run: Callable, table) -> None:
    options = ["--table", str(table.folder), "--draws", "500", "--eta", "1", "--seed", "0"]
    pair = ["--pairs", "nouna:nounb"]
    code, printed = run("audit", "--mechanism", "t2t", *pair, *options)
    assert code == 0
    assert "nouna" in printed and "verba" not in printed
    code, printed = run("audit", "--mechanism", "pct2t", "--full", *pair, *options)
    assert code == 0
    assert "holds" in printed
    verbs = ["--pairs", "verba:verbb"]
    code, printed = run("audit", "--mechanism", "pct2t", "--full", *verbs, *options)
    assert "not tested: pairs: got none within the category" in printed


def test_all_mechanisms_are_listed_with_their_parameters(run: Callable) -> None:
    code, printed = run("mechanisms")
    assert code == 0
    for name, kind in MECHANISMS.items():
        assert name in printed
        assert kind.source in printed
        assert (kind.caveat or "")[:40] in printed
    assert "beta = 0.001" in printed
    assert "probability of a word beyond the truncation" in printed


def documented() -> Iterator[tuple[str, str]]:
    text = (ROOT / "evidence/audit.md").read_text()
    section = text.split("## What the audit finds")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
            yield cells[0], cells[-1]


def test_the_documented_verdicts_are_those_of_every_mechanism() -> None:
    found = dict(documented())
    assert list(found) == list(MECHANISMS)
    for name, text in found.items():
        expected = "refuted" if mechanism(name).caveat else "holds"
        assert text.startswith(expected)
