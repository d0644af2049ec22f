"""Audits: tests of the laws that mechanisms draw by, and lower bounds on privacy losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from rapt.audit.cases import AuditChoice, Case, Subject, subjects_of
from rapt.audit.exact import POWER, exact_law, p_of
from rapt.audit.laws import Check, Streams, forked, white_box, white_box_excess
from rapt.audit.outcomes import Counts, Finding, black_box_excess, counts, findings
from rapt.audit.paths import generator, released, states
from rapt.audit.strata import Sight
from rapt.privacy.mechanisms import MECHANISMS, Mechanism
from rapt.privacy.streams import fresh, stream
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar

__all__ = ["FALSE_ALARM", "Audit", "AuditChoice", "Finding", "Verdict", "audit", "subjects_of"]

# Probability that any verdict of an audit wrongly reports a violation.
FALSE_ALARM = 1e-6
LAW_CHECKS = 2  # of outcomes, at most
PATHS = 6  # beside the mechanisms: ways to release texts, and the generator

SHOWN = ("files", "category")  # the ways of which it is shown what they see

HOLDS = "holds"
VIOLATED = "VIOLATED"
CLAIM_VIOLATED = "paper's claim refuted"
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Verdict:
    """An audit's verdict on a mechanism, on a way to release texts, or on the generator.

    Attributes:
        name: of what is audited.
        mechanism: the audited mechanism, if it is one.
        findings: one for each comparison of inputs.
        checks: the tests of laws.
        level: the p-value below which a check fails.
        white_box: the smallest excess of η that the checks detect, as a factor; None: there is
            nothing that it could be seen in.
        black_box: the same of outcomes alone.
        not_tested: the reasons why cases were left out.
        note: more about the power.
        sight: the smallest faults of some strata of words that are caught.
        further: the smallest faults of other kinds, by name.
    """

    name: str
    mechanism: Mechanism | None = None
    findings: Sequence[Finding] = ()
    checks: Sequence[Check] = ()
    level: float = 0.0
    white_box: float | None = None
    black_box: float | None = None
    not_tested: Sequence[str] = ()
    note: str = ""
    sight: Sequence[Sight] = ()
    further: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> list[Check]:
        """The checks that failed, the clearest first."""
        failed = [check for check in self.checks if not check.p >= self.level]  # nor NaN
        return sorted(failed, key=lambda check: check.p)

    @property
    def violated(self) -> bool:
        """Whether a law or the guarantee that rapt states is violated."""
        return bool(self.failed) or any(found.loss > found.bound for found in self.findings)

    @property
    def text(self) -> str:
        """The verdict as text."""
        if self.violated:
            return VIOLATED
        if not self.findings and not self.checks:
            return NOT_TESTED
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
        verdicts: one for each mechanism, way to release texts, and for the generator.
        false_alarm: the probability that any of them wrongly reports a violation, at most.
        power: the probability with which an excess as great as stated is detected, at least.
    """

    verdicts: Sequence[Verdict]
    false_alarm: float = FALSE_ALARM
    power: float = POWER

    @property
    def violated(self) -> bool:
        """Whether any law or any guarantee that rapt states is violated."""
        return any(verdict.violated for verdict in self.verdicts)


def audit(choice: AuditChoice, seed: int | None = None) -> Audit:
    """Audit what a choice names; with no mechanism named, the ways to release texts too.

    Args:
        choice: what to audit.
        seed: for repeatable draws of the mechanisms; None: draw as a release does.

    Raises:
        RaptError: a name or a number is not allowed.
    """
    every = subjects_of(choice)
    share = FALSE_ALARM / (len(MECHANISMS) + PATHS)

    def mechanisms() -> list[Verdict]:
        return [verdict(some, seed, share) for some in bar(every, "auditing", len(every))]

    if choice.mechanisms:
        return Audit(mechanisms())
    # Most of an audit runs on one core, and half of its time goes to the ways.
    parts = (mechanisms, lambda: list(ways(share)))
    return Audit([*chain(*forked(lambda process: parts[process]()))])


def verdict(some: Subject, seed: int | None, false_alarm: float) -> Verdict:
    """Audit a mechanism: half of the false-alarm rate is for its laws, half for its outcomes.

    Each test has its equal share (Bonferroni).
    """
    kind, random = some.mechanism, streams(seed)
    if not (kind.claim.proof or kind.claim.published):
        reason = f"mechanism: got {kind.name}, expected one that states a claim."
        return Verdict(kind.name, kind, not_tested=[reason])
    checks = [
        check for table in some.tables for check in white_box(kind, table, some.laws_eta, random)
    ]
    level = false_alarm / 2 / (len(checks) + LAW_CHECKS)
    white = black = None
    if some.tables:
        white = white_box_excess(kind, some.tables[-1], some.laws_eta, level)
    shown: list[Finding] = []
    left_out = []
    part = false_alarm / 2 / max(1, sum(2 * len(case.pairs) for case in some.cases))
    for number, case in enumerate(some.cases):
        try:
            found = {word: counts(case, word, random) for word in {*chain(*case.pairs)}}
        except RaptError as error:
            left_out.append(str(error))
            continue
        shown += findings(case, found, part)
        if number == 0:
            checks += _law_checks(case, found)
            black = black_box_excess(case, random, part, level)
    return Verdict(kind.name, kind, shown, checks, level, white, black, left_out)


def _law_checks(case: Case, found: Mapping[str, Counts]) -> Iterator[Check]:
    """Test the outcomes of the first pair's words against their exact law, if there is one."""
    law = exact_law(case.mechanism, case.space, case.eta)
    for word, row in zip(case.pairs[0], case.table.rows(case.pairs[0]), strict=True):
        if law is not None:
            p = p_of(found[word], np.append(law[row], 0.0))
            yield Check(f"outcomes of {word}: their exact probabilities", p)


def streams(seed: int | None) -> Streams:
    """The generators by name: those of releases, or repeatable ones."""
    return (lambda *_: fresh()) if seed is None else partial(stream, seed, "audit")


def ways(false_alarm: float) -> Iterator[Verdict]:
    """Audit the ways to release texts, and the generator."""
    for name, checks, law, calls in released():
        found = Verdict(f"by {name}", checks=checks, level=false_alarm / len(checks))
        if name in SHOWN:
            sight, further = law.sight(calls, found.level), law.further_sight(calls, found.level)
            found = replace(found, sight=list(sight), further=further)
        yield found
    checks = generator()
    note = f"generators of up to 2^{states():.0f} states would be seen to repeat"
    yield Verdict("generator", checks=checks, level=false_alarm / len(checks), note=note)
