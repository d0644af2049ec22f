"""Verdicts of an audit; what it catches: test_mutants.py."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from rapt import audit as module
from rapt.audit import FALSE_ALARM, AuditChoice, Finding, Verdict, audit, subjects_of, verdict
from rapt.audit.cases import DRAWS, subject
from rapt.audit.laws import Check
from rapt.privacy.mechanisms import MECHANISMS, RewritingMechanism
from rapt.privacy.mechanisms.base import Rewriter
from rapt.privacy.mechanisms.claim import Claim, Metric
from rapt.text.table import EmbeddingTable

CLAIM_VIOLATED = "paper's claim refuted"


def finding(loss: float, bound: float, claim: float) -> Finding:
    return Finding(1.0, "a", "b", loss, "a", bound, claim)


@pytest.mark.parametrize(
    ("findings", "text", "strongest"),
    [
        ([finding(1, 2, 2), finding(1, 1.5, 1.5)], "holds", 1),
        ([finding(1, 2, 2), finding(1, 9, 0.9)], CLAIM_VIOLATED, 1),
        ([finding(1, np.inf, 0.5), finding(0, 1, 1)], CLAIM_VIOLATED, 0),
        ([finding(1, 9, 0.1), finding(1.1, 1, 1)], "VIOLATED", 1),
        ([finding(0.1, 0, 0), finding(1, 2, 2)], "VIOLATED", 0),
        ([finding(0, 0, 0), finding(0, np.inf, 1)], "holds", 0),
    ],
)
def test_a_verdict_tells_the_law_from_the_claim(
    findings: list[Finding], text: str, strongest: int
) -> None:
    found = Verdict("t2t", findings=findings)
    assert found.text == text
    assert found.violated == (text == "VIOLATED")
    assert found.strongest is findings[strongest]


def test_a_verdict_fails_with_any_of_its_checks() -> None:
    checks = [Check("a", 0.5), Check("b", 1e-9), Check("c", 1e-12)]
    found = Verdict("t2t", checks=checks, level=1e-8)
    assert found.text == "VIOLATED"
    assert [check.what for check in found.failed] == ["c", "b"]
    assert Verdict("t2t", checks=checks, level=1e-13).text == "holds"
    assert Verdict("t2t").text == "not tested"


@pytest.mark.slow
def test_the_whole_audit_has_the_stated_false_alarm_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of all tests add up to it at most."""
    spent = []
    real = module.findings

    def recorded(case, found, level):
        spent.append(2 * len(case.pairs) * level)
        return real(case, found, level)

    monkeypatch.setattr(module, "findings", recorded)
    found = audit(AuditChoice(["t2t", "santext", "token-representation"], draws=200), seed=0)
    spent += [verdict.level * len(verdict.checks) for verdict in found.verdicts]
    assert len(spent) == 3 * 3
    rows = len(MECHANISMS) + 6
    assert sum(spent) <= FALSE_ALARM * 3 / rows * (1 + 1e-9)
    assert found.false_alarm == FALSE_ALARM <= 1e-6


@pytest.mark.parametrize("name", ["t2t", "santext"])
def test_an_excess_of_15_percent_would_be_caught_both_ways(name: str) -> None:
    """As evidence/audit.md says of T2T, within seconds."""
    (some,) = subjects_of(AuditChoice([name]))
    found = verdict(some, 0, FALSE_ALARM / 20)
    assert found.text == "holds"
    assert found.white_box and found.white_box < 1.02
    assert found.black_box and found.black_box < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_sound_laws_hold_and_unsound_claims_are_shown(name: str) -> None:
    """By a quarter of the draws where nothing is to be shown: evidence/audit.json has all."""
    draws = DRAWS if MECHANISMS[name].claim.published else DRAWS // 4
    (some,) = subjects_of(AuditChoice([name], draws=draws))
    found = verdict(some, 1, FALSE_ALARM / 20)
    assert not found.violated
    assert found.text == (CLAIM_VIOLATED if some.mechanism.claim.published else "holds")
    assert not found.not_tested


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_mechanism_that_writes_another_text_is_judged_by_its_outcomes(factor: float) -> None:
    """Randomized response on the first word of a text; its own draws are none of the audit's."""

    @dataclass(frozen=True)
    class Response(RewritingMechanism):
        name = "response"
        claim = Claim(
            Metric("1 between texts that differ", lambda *a: np.any(a[2] != a[3], axis=1) * 1.0),
            ("a/page",),
            unit="one text",
        )

        def writer(self, table: EmbeddingTable, eta: float) -> Rewriter:
            size, eta = len(table.words), factor * eta
            kept = np.exp(eta) / (np.exp(eta) + size - 1)

            def write(words: Sequence[str], rng: np.random.Generator) -> list[str]:
                (own,) = table.rows(words[:1])
                step = 0 if rng.random() < kept else rng.integers(1, size)
                return [table.words[(own + step) % size]] * (1 + len(words))

            return write

    found = verdict(subject(Response(), [], 15_000), 0, FALSE_ALARM / 20)
    assert not found.checks and found.black_box is None and not found.not_tested
    assert found.violated == (factor > 1)
