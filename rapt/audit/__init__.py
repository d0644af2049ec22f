"""Audits: empirical lower bounds on privacy losses, against the mechanisms' guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rapt.audit.cases import Case, Choice, cases_of
from rapt.audit.draws import VIEWS, Draws, Texts, draws_of, streams
from rapt.audit.evidence import EVENTS, best_evidence
from rapt.privacy.mechanisms import Mechanism
from rapt.privacy.mechanisms.vectors import mean
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar

__all__ = ["FALSE_ALARM", "Audit", "Case", "Choice", "Finding", "Verdict", "audit", "cases_of"]

# Probability that any verdict of an audit wrongly reports a violation.
FALSE_ALARM = 1e-6

HOLDS = "holds"
VIOLATED = "VIOLATED"
CLAIM_VIOLATED = "refuted for any two inputs, see caveat"
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Finding:
    """The strongest evidence from the draws of two inputs.

    Attributes:
        eta: the privacy parameter.
        one: the input whose output is more likely than the law allows, if it is.
        other: the input that it is compared with.
        loss: lower bound on log P[M(one) in S] − log P[M(other) in S].
        event: S.
        bound: the largest loss under the guarantee that rapt states.
        claim: the largest loss under the published claim.
    """

    eta: float
    one: Texts
    other: Texts
    loss: float
    event: str
    bound: float
    claim: float


@dataclass(frozen=True)
class Verdict:
    """An audit's verdict on a mechanism.

    Attributes:
        mechanism: the audited mechanism.
        findings: one for each comparison.
        not_tested: the reasons why cases were left out.
    """

    mechanism: Mechanism
    findings: Sequence[Finding]
    not_tested: Sequence[str] = ()

    @property
    def violated(self) -> bool:
        """Whether a finding violates the guarantee that rapt states."""
        return any(finding.loss > finding.bound for finding in self.findings)

    @property
    def text(self) -> str:
        """The verdict as text."""
        if not self.findings:
            return NOT_TESTED
        if self.violated:
            return VIOLATED
        return CLAIM_VIOLATED if any(f.loss > f.claim for f in self.findings) else HOLDS

    @property
    def strongest(self) -> Finding | None:
        """The finding nearest to the guarantee's bound, or to the claim's if that is violated."""
        by_claim = self.text == CLAIM_VIOLATED

        def share(finding: Finding) -> float:
            allowed = finding.claim if by_claim else finding.bound
            if not finding.loss:
                return 0.0
            return finding.loss / allowed if allowed else np.inf

        return max(self.findings, key=share, default=None)


@dataclass(frozen=True)
class Audit:
    """The verdicts of an audit.

    Attributes:
        verdicts: one for each mechanism.
        events: number of tested events.
    """

    verdicts: Sequence[Verdict]
    events: int

    @property
    def violated(self) -> bool:
        """Whether any guarantee that rapt states is violated."""
        return any(verdict.violated for verdict in self.verdicts)


def audit(cases: Sequence[Case], seed: int | None = None) -> Audit:
    """Audit cases for violations.

    With probability at least 1 − FALSE_ALARM all lower bounds on losses hold at once: each event is
    tested at its share of that level (Bonferroni).

    Args:
        cases: the cases to audit.
        seed: for repeatable draws; None: draw as a release does.
    """
    views = VIEWS * sum(2 * len(case.pairs) + 4 * len(case.together) for case in cases)
    found: dict[str, tuple[Mechanism, list[Finding], list[str]]] = {}
    for case in bar(cases, "auditing", len(cases)):
        name = case.mechanism.name
        _, findings, left_out = found.setdefault(name, (case.mechanism, [], []))
        try:
            findings += _audited(case, FALSE_ALARM / views, seed)
        except RaptError as error:
            left_out.append(str(error))
    return Audit([Verdict(*parts) for parts in found.values()], views * EVENTS)


def _audited(case: Case, level: float, seed: int | None) -> list[Finding]:
    """Audit one case.

    Raises:
        RaptError: the mechanism claims nothing, is not defined for this case, or protects no pair.
    """
    if not (case.mechanism.claim.proof or case.mechanism.claim.published):
        raise RaptError(f"mechanism: got {case.mechanism.name}, expected one that states a claim.")
    made = draws_of(case, streams(seed))
    outputs: dict[Texts, Any] = {}
    findings = []
    for one, other in _inputs(case):
        if all(made.covers(word) for texts in (one, other) for text in texts for word in text):
            for texts in (one, other):
                if texts not in outputs:
                    outputs[texts] = made(texts)
            findings.append(_finding(case, made, one, other, outputs, level))
    if not findings:
        raise RaptError("pairs: got none within the category of nouns, expected one or more.")
    return findings


def _inputs(case: Case) -> Iterable[tuple[Texts, Texts]]:
    """Yield each comparison of a case, in both directions."""
    inputs: list[tuple[Texts, Texts]] = []
    inputs += [(((one,),), ((other,),)) for one, other in case.pairs]
    for one, other in case.together:
        # These reveal noise that is used twice, within a text or across two.
        inputs += [(((one, one),), ((one, other),)), (((one,), (one,)), ((one,), (other,)))]
    for pair in inputs:
        yield pair
        yield pair[::-1]


def _finding(
    case: Case,
    made: Draws,
    one: Texts,
    other: Texts,
    outputs: dict[Texts, Any],
    level: float,
) -> Finding:
    kind = case.mechanism
    # Losses add up over words, or over texts if a text is released as one vector.
    sides = [
        np.concatenate([mean(v) if kind.pooled else v for v in map(case.table.embed, texts)])
        for texts in (one, other)
    ]
    holds = kind.claim.metric
    bound, claim = (
        sum(kind.claim.loss(case.eta, float(d)) for d in metric.between(kind, made.space, *sides))
        for metric in (holds, kind.claim.published or holds)
    )
    shown = [
        best_evidence(view, min(bound, claim), level)
        for view in made.views(outputs[one], outputs[other], one, other)
    ]
    best = max(shown, key=lambda found: found.loss)
    return Finding(case.eta, one, other, best.loss, best.event, bound, claim)
