"""`rapt audit` and `rapt mechanisms`: the verdicts, in the terminal and as JSON."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from rapt.privacy import audit as audits
from rapt.privacy.audit import FALSE_ALARM, Audit, Finding, Verdict
from rapt.privacy.audit.cases import ETAS, Choice, Pairs
from rapt.privacy.audit.draws import Texts
from rapt.privacy.mechanisms import MECHANISMS, Mechanism
from rapt.utils.errors import RaptError

COLUMNS = ("mechanism", "loss shown", "allowed", "where", "verdict")  # of 80 characters


def audit(
    *,
    mechanisms: Sequence[str],
    etas: Sequence[float],
    table: Path | None,
    words: Sequence[str],
    pairs: Sequence[str],
    draws: int,
    dimensions: int | None,
    seed: int | None,
    json: Path | None,
) -> bool:
    """Audit, print and write the verdicts; whether a law that rapt vouches for is violated.

    Raises:
        RaptError: an option is not allowed.
    """
    choice = Choice(
        mechanisms=mechanisms,
        etas=etas or ETAS,
        table=table,
        words=words,
        pairs=_pairs(pairs),
        draws=draws,
        dimensions=dimensions,
    )
    found = audits.audit(audits.cases_of(choice), seed)
    print_audit(found)
    if json:
        content = json_format.dumps(as_json(found), indent=1, ensure_ascii=False, allow_nan=False)
        json.write_text(content + "\n")
    return found.violated


def _pairs(pairs: Sequence[str]) -> Pairs:
    split = []
    for pair in pairs:
        one, colon, other = pair.partition(":")
        if not (one and colon and other) or one == other:
            raise RaptError(f"pairs: got {pair!r}, expected two words, as in cat:dog.")
        split.append((one, other))
    return split


def print_audit(audit: Audit) -> None:
    """Print the verdicts, and the evidence against what does not hold."""
    console = Console(markup=False, highlight=False)  # words may look like markup
    table = Table(
        *(Column(name, no_wrap=name == "mechanism") for name in COLUMNS),
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for verdict in audit.verdicts:
        table.add_row(*_row(verdict))
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
    best, name = verdict.strongest, verdict.mechanism.name
    if not best:
        return (name, "", "", "", verdict.text)
    # The claim where it differs: of the law, infinite in the others, nothing would be seen.
    claimed = f" claimed, {best.bound:.2f} by law" if best.claim < best.bound else ""
    allowed = f"{best.claim if claimed else best.bound:.2f}{claimed}"
    where = f"eta {best.eta:.3g}: {_inputs(best)}"
    return (name, f"{best.loss:.2f}", allowed, where, verdict.text)


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
