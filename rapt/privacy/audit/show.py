"""An audit in the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from rapt.privacy.audit import FALSE_ALARM, Audit, Finding, Verdict
from rapt.privacy.audit.draws import Texts
from rapt.privacy.mechanisms import MECHANISMS, Mechanism

COLUMNS = ("mechanism", "metric", "comparisons", "loss shown", "allowed", "where", "verdict")
IN_A_TERMINAL = ("mechanism", "loss shown", "allowed", "where", "verdict")  # of 80 columns


def rows(audit: Audit) -> list[tuple[str, ...]]:
    """The verdicts as text, one for each of COLUMNS."""
    return [_row(verdict) for verdict in audit.verdicts]


def print_audit(audit: Audit) -> None:
    """Print the verdicts, and the evidence against what does not hold."""
    console = Console(markup=False, highlight=False)  # words may look like markup
    table = Table(
        *(Column(name, no_wrap=name == "mechanism") for name in IN_A_TERMINAL),
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for row in rows(audit):
        named = dict(zip(COLUMNS, row, strict=True))
        table.add_row(*(named[name] for name in IN_A_TERMINAL))
    console.print(table)
    for verdict in audit.verdicts:
        if verdict.violated and verdict.strongest:
            evidence = f"{verdict.mechanism.name}: {_evidence(verdict.strongest)}"
            console.print(evidence, style="bold red")
        for reason in dict.fromkeys(verdict.not_tested):
            console.print(f"{verdict.mechanism.name}, not tested: {reason}")
    console.print(
        f"{audit.events} events tested. Every lower bound holds at once, with probability at least "
        f"1 - {FALSE_ALARM:g}: an audit shows violations, never their absence."
    )


def as_json(audit: Audit) -> dict[str, Any]:
    """The verdicts with all findings; infinite bounds are null: nothing is promised."""
    return {
        "false_alarm": FALSE_ALARM,
        "events": audit.events,
        "verdicts": [
            {
                "mechanism": verdict.mechanism.name,
                "source": verdict.mechanism.source,
                "metric": verdict.mechanism.metric,
                "caveat": verdict.mechanism.caveat,
                "verdict": verdict.text,
                "not_tested": list(verdict.not_tested),
                "findings": [
                    {key: _finite(value) for key, value in asdict(finding).items()}
                    for finding in verdict.findings
                ],
            }
            for verdict in audit.verdicts
        ],
    }


def print_mechanisms() -> None:
    """Print what every mechanism is, and its parameters."""
    console = Console(highlight=False)
    for name, kind in MECHANISMS.items():
        console.print(f"[bold]{name}[/] {(kind.__doc__ or '').splitlines()[0]}")
        console.print(Padding(_facts(kind), (0, 0, 1, 2)))


def _facts(kind: type[Mechanism]) -> Table:
    mechanism = kind()
    grid = Table.grid(padding=(0, 2))
    grid.add_row("source", mechanism.source)
    grid.add_row("releases", mechanism.releases)
    grid.add_row("categories", mechanism.categories)
    grid.add_row("metric", mechanism.metric)
    grid.add_row("law", mechanism.law("eta"))
    if mechanism.caveat:
        grid.add_row("caveat", f"[yellow]{mechanism.caveat}[/]")
    for field in fields(mechanism):
        grid.add_row(f"{field.name} = {field.default}", field.metadata["help"])
    return grid


def _row(verdict: Verdict) -> tuple[str, ...]:
    best, kind = verdict.strongest, verdict.mechanism
    numbers = ("", "", "")
    if best:
        # The claim where it differs: of the law, infinite in the others, nothing would be seen.
        claimed = f" claimed, {best.bound:.2f} by law" if best.claim < best.bound else ""
        allowed = f"{best.claim if claimed else best.bound:.2f}{claimed}"
        numbers = (f"{best.loss:.2f}", allowed, f"eta {best.eta:.3g}: {_inputs(best)}")
    return (kind.name, kind.metric, str(len(verdict.findings)), *numbers, verdict.text)


def _evidence(finding: Finding) -> str:
    return (
        f"at eta {finding.eta:g}, {_inputs(finding)}: got P[{finding.event}] at least "
        f"exp({finding.loss:.4g}) times as likely, expected at most exp({finding.bound:.4g})."
    )


def _inputs(finding: Finding) -> str:
    return f"{_text(finding.one)} against {_text(finding.other)}"


def _text(texts: Texts) -> str:
    return " / ".join(" ".join(words) for words in texts)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
