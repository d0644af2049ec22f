"""`rapt audit` and `rapt mechanisms`: the verdicts, in the terminal and as JSON."""

from __future__ import annotations

import json as json_format
import math
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from rapt.options import AsJson

if TYPE_CHECKING:
    from rapt.audit import Audit, Finding, Verdict
    from rapt.privacy.mechanisms import Mechanism

EVIDENCE = 3  # failed tests that are printed
CLAIM = "paper's claim refuted"
SIGHT = ("words", "in corpus", "no noise", "verbatim", "eta")
OUT_OF_SIGHT = (
    "Out of sight: rarer faults, faults that depend on what none of these strata divides, words "
    "with signs inside. Also a grid of directions, time, memory, and code that knows that it is "
    "audited."
)
COLUMNS = ("audited", "allowed", "shown", "white-box", "black-box", "verdict")  # 80 characters


def audit(
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="Of `rapt mechanisms`, repeatable; else all, and ways to release."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Embedding table, for its dimension; else 384."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Outcomes of each compared word.")] = 200_000,
    seed: Annotated[int | None, typer.Option(help="For repeatable draws of mechanisms.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all findings to this file.")] = None,
) -> None:
    """Look for violations of what the mechanisms promise; exit with 1 if there are any."""
    from rapt import audit as audits

    found = audits.audit(audits.AuditChoice(mechanism or (), table, draws), seed)
    print_audit(found)
    if json:
        written = json_format.dumps(as_json(found), indent=1, ensure_ascii=False, allow_nan=False)
        json.write_text(written + "\n")
    if found.violated:
        raise typer.Exit(1)


def print_audit(audit: Audit) -> None:
    """Print the verdicts and their power, and the evidence against what does not hold."""
    console = Console(markup=False, highlight=False)  # words may look like markup
    table = Table(
        *(Column(name, no_wrap=True) for name in COLUMNS), box=SIMPLE, padding=0, show_edge=False
    )
    for verdict in audit.verdicts:
        table.add_row(*_row(verdict))
    console.print(table)
    for verdict in audit.verdicts:
        if verdict.sight:
            _print_sight(console, verdict, audit.power)
    for verdict in audit.verdicts:
        for line in _evidence(verdict):
            console.print(f"{verdict.name}: {line}", style="bold red")
        for reason in dict.fromkeys(verdict.not_tested):
            console.print(f"{verdict.name}, not tested: {reason}")
        if verdict.note:
            console.print(f"{verdict.name}: {verdict.note}.")
    console.print(
        "Losses in nats. White-box, black-box: the smallest excess of eta that the tests of the "
        f"noise, of the outcomes detect, as a factor, with {audit.power:.0%} power. "
        f"False alarms of the whole audit: below {audit.false_alarm:g}."
    )
    if any(verdict.text == CLAIM for verdict in audit.verdicts):
        console.print(
            f"{CLAIM}: what the mechanism's paper promises does not hold. rapt states a weaker "
            "guarantee or none, which was not violated."
        )


def _print_sight(console: Console, verdict: Verdict, power: float) -> None:
    """Print the smallest faults that a way to release would have shown."""
    table = Table(
        *(Column(name, no_wrap=True) for name in SIGHT),
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        title=f"{verdict.name}: the smallest faults that are caught with {power:.0%} power",
        title_justify="left",
    )
    for sight in verdict.sight:
        verbatim = "-" if sight.verbatim is None else _percent(sight.verbatim)
        numbers = _percent(sight.bare), verbatim, _factor(sight.eta)
        table.add_row(sight.stratum, f"{sight.words:,}", *numbers)
    console.print(table)
    further = verdict.further
    console.print(
        f"Noise shared by words 1 to 5 apart: a correlation of {further['correlation']:.2g}. One "
        f"direction with less noise: {further['variance']:.2g} of its variance. Tails cut: the "
        f"largest {_percent(further['tail'])}. Sizes on a grid: {further['bits']:.0f} bits."
    )
    console.print(OUT_OF_SIGHT)


def _percent(share: float) -> str:
    """A share in percent, rounded up."""
    return f"{math.ceil(1e5 * share) / 1e3:.3f} %"


def as_json(audit: Audit) -> dict[str, Any]:
    """The verdicts with all findings; infinite bounds are null: nothing is promised."""
    return {
        "false_alarm": audit.false_alarm,
        "power": audit.power,
        "tests": sum(len(v.checks) for v in audit.verdicts),
        "comparisons": sum(len(v.findings) for v in audit.verdicts),
        "verdicts": [
            {
                "name": verdict.name,
                "source": verdict.mechanism and verdict.mechanism.source,
                "metric": verdict.mechanism and verdict.mechanism.metric,
                "caveat": verdict.mechanism and verdict.mechanism.claim.caveat,
                "verdict": verdict.text,
                "white_box": verdict.white_box,
                "black_box": verdict.black_box,
                "note": verdict.note,
                "sight": [sight._asdict() for sight in verdict.sight],
                "further": dict(verdict.further),
                "not_tested": list(verdict.not_tested),
                "strongest": verdict.strongest and _finding(verdict.strongest),
                "level": verdict.level,
                "checks": [asdict(check) for check in verdict.checks],
                "findings": [_finding(finding) for finding in verdict.findings],
            }
            for verdict in audit.verdicts
        ],
    }


def mechanisms(json: AsJson = False) -> None:
    """List the mechanisms: what holds for each, what does not, and its parameters."""
    from rapt.privacy.mechanisms import MECHANISMS

    if json:
        shown = [_mechanism(name, kind()) for name, kind in MECHANISMS.items()]
        typer.echo(json_format.dumps(shown, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for name, kind in MECHANISMS.items():
        console.print(f"[bold]{name}[/] {(kind.__doc__ or '').splitlines()[0]}")
        console.print(Padding(_facts(kind), (0, 0, 1, 2)))


def _mechanism(name: str, mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's facts; those of a guarantee are null where there is none."""
    claim, holds = mechanism.claim, bool(mechanism.claim.proof)
    return {
        "name": name,
        "summary": (mechanism.__doc__ or "").splitlines()[0],
        "source": mechanism.source,
        "releases": mechanism.releases.name,
        "categories": mechanism.categories,
        "law": claim.law("eta") if holds else None,
        "metric": mechanism.metric if holds else None,
        "unit": claim.unit if holds else None,
        "delta": claim.delta if holds else None,
        "conditions": list(claim.conditions),
        "proof": list(claim.places),
        "caveat": claim.caveat or None,
        "parameters": {
            field.name: {"default": field.default, "help": field.metadata.get("help", "")}
            for field in fields(mechanism)
        },
    }


def _facts(kind: type[Mechanism]) -> Table:
    mechanism = kind()
    grid = Table.grid(padding=(0, 2))
    grid.add_row("source", mechanism.source)
    grid.add_row("releases", mechanism.releases.name)
    grid.add_row("categories", mechanism.categories)
    claim = mechanism.claim
    grid.add_row("law", claim.law("eta"))
    if claim.proof:
        grid.add_row("d", mechanism.metric)
        grid.add_row("of", claim.unit)
        if claim.delta and not claim.approximate:
            grid.add_row("delta", f"{claim.delta:.2g} for each candidate")
        grid.add_row("if", " ".join(claim.conditions))
        grid.add_row("proof", ", ".join(claim.places))
    if claim.caveat:
        grid.add_row("caveat", f"[yellow]{claim.caveat}[/]")
    for field in fields(mechanism):
        grid.add_row(f"{field.name} = {field.default}", field.metadata.get("help", ""))
    return grid


def _row(verdict: Verdict) -> tuple[str, ...]:
    best, powers = verdict.strongest, (verdict.white_box, verdict.black_box)
    losses = ("", "")
    if best:
        # The claim where it differs: of the law, infinite in the others, nothing would be seen.
        allowed = min(best.bound, best.claim)
        losses = f"{allowed:.2f}", f"{best.loss:.2f}"
    return (verdict.name, *losses, *map(_factor, powers), verdict.text)


def _factor(power: float | None) -> str:
    """A factor, rounded up."""
    return "" if power is None else f"{math.ceil(1000 * power) / 1000:.3f}"


def _evidence(verdict: Verdict) -> Iterator[str]:
    """Yield what shows a violation, the clearest first."""
    for check in verdict.failed[:EVIDENCE]:
        yield f"{check.what}: got p = {check.p:.2g}, expected {verdict.level:.2g} or more."
    best = verdict.strongest
    if best and best.loss > best.bound:
        yield (
            f"at eta {best.eta:g}, {best.one} against {best.other}: got "
            f"P[{best.event}] at least exp({best.loss:.4g}) times as likely, expected at most "
            f"exp({best.bound:.4g})."
        )


def _finding(finding: Finding) -> dict[str, Any]:
    return {key: _finite(value) for key, value in asdict(finding).items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
