"""`rapt audit` and `rapt mechanisms`: the verdicts, in the terminal and as JSON."""

from __future__ import annotations

import json as json_format
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from rapt.options import parsed_eta
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.audit import Audit, Finding, Verdict
    from rapt.audit.cases import Pairs
    from rapt.audit.draws import Texts
    from rapt.privacy.mechanisms import Mechanism

COLUMNS = ("mechanism", "loss shown", "allowed", "where", "verdict")  # of 80 characters


def audit(
    mechanism: Annotated[
        list[str] | None, typer.Option(help="Of `rapt mechanisms`, repeatable; else all.")
    ] = None,
    eta: Annotated[
        list[float] | None,
        typer.Option(parser=parsed_eta, metavar="FLOAT", help="Repeatable; else 0.5 and 2."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Embedding table; else built-in words."),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option(help="Word of the space, repeatable; else frequent ones.")
    ] = None,
    pairs: Annotated[
        list[str] | None, typer.Option(help="Two words, as in cat:dog, repeatable; else several.")
    ] = None,
    draws: Annotated[int, typer.Option(help="For each input.")] = 10_000,
    dimensions: Annotated[int, typer.Option(help="Of the space, by principal components.")] = 2,
    full: Annotated[
        bool, typer.Option("--full", help="The whole table as it is, instead of a small space.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="For repeatable draws.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all findings to this file.")] = None,
) -> None:
    """Look for violations of what the mechanisms promise; exit with 1 if there are any."""
    from rapt import audit as audits
    from rapt.audit.cases import ETAS, Choice

    choice = Choice(
        mechanisms=mechanism or (),
        etas=eta or ETAS,
        table=table,
        words=words or (),
        pairs=_pairs(pairs or ()),
        draws=draws,
        dimensions=None if full else dimensions,
    )
    found = audits.audit(audits.cases_of(choice), seed)
    print_audit(found, audits.FALSE_ALARM)
    if json:
        content = as_json(found, audits.FALSE_ALARM)
        written = json_format.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        json.write_text(written + "\n")
    if found.violated:
        raise typer.Exit(1)


def _pairs(pairs: Sequence[str]) -> Pairs:
    split = []
    for pair in pairs:
        one, colon, other = pair.partition(":")
        if not (one and colon and other) or one == other:
            raise RaptError(f"pairs: got {pair!r}, expected two words, as in cat:dog.")
        split.append((one, other))
    return split


def print_audit(audit: Audit, false_alarm: float) -> None:
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
        f"1 - {false_alarm:g}: an audit shows violations, never their absence."
    )


def as_json(audit: Audit, false_alarm: float) -> dict[str, Any]:
    """The verdicts with all findings; infinite bounds are null: nothing is promised."""
    return {
        "false_alarm": false_alarm,
        "events": audit.events,
        "verdicts": [
            {
                "mechanism": verdict.mechanism.name,
                "source": verdict.mechanism.source,
                "metric": verdict.mechanism.metric,
                "caveat": verdict.mechanism.claim.caveat,
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


def mechanisms() -> None:
    """List the mechanisms: what holds for each, what does not, and its parameters."""
    from rapt.privacy.mechanisms import MECHANISMS

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
    claim = mechanism.claim
    grid.add_row("law", claim.law("eta"))
    if claim.proof:
        grid.add_row("d", mechanism.metric)
        grid.add_row("of", claim.unit)
        if claim.delta:
            grid.add_row("delta", f"{claim.delta:.2g} for each candidate")
        grid.add_row("if", " ".join(claim.conditions))
        grid.add_row("proof", ", ".join(claim.places))
    if claim.caveat:
        grid.add_row("caveat", f"[yellow]{claim.caveat}[/]")
    for field in fields(mechanism):
        grid.add_row(f"{field.name} = {field.default}", field.metadata.get("help", ""))
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
    return None if isinstance(value, float) and not math.isfinite(value) else value
