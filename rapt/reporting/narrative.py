"""The report's headline, computed from the cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapt.grid import sorted_etas
from rapt.reporting import tables
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import NBSP, count, eta_text, group_text, listing, percent, span
from rapt.results.reader import Results

# Up to this many η, a sentence reports all; of more, it reports three.
TOLD = 4


def headline(results: Results) -> list[tuple[str, str]]:
    """Return up to six lines with headings: advice, what ran, its results, what is missing."""
    tuned = [r for r in tables.utility(results) if r.on_grid and r.accuracy is not None]
    first = [row for row in tuned if row.group == tuned[0].group]
    attacks = [row for row in tables.privacy(results) if row.attack_accuracy is not None]
    lines = {
        "Advice": advice(tuned),
        "What ran": _what_ran(results),
        "Clean text": "".join(
            f"Accuracy {percent(row.accuracy, row.accuracy_sd)}{NBSP}%, with nothing protected."
            for row in first
            if row.unprotected
        ),
        "Privatized": _accuracies([row for row in first if not row.unprotected]),
        "Attacked": " ".join(_attacked(attacks)),
        "State": _whole(results),
    }
    if first and len(tables.groups(tables.utility(results))) > 1:
        lines["What ran"] += f" The figures here are those of {group_text(first[0].group)}."
    return [(heading, line) for heading, line in lines.items() if line]


def advice(rows: Sequence[Utility]) -> str:
    """Say whether a release is worth sending; empty where sending nothing has not been measured.

    Args:
        rows: of the grid, with results.
    """
    measured = [row for row in rows if row.against_local]
    known = [row for row in measured if row.task == measured[0].task]
    if not known:
        return ""
    alone = f"A local model reaches {percent(known[0].local)}{NBSP}% with nothing sent."
    released = [row for row in known if not row.unprotected]
    paying = [row for row in released if row.against_local == "better"]
    if paying:
        best = max(paying, key=lambda row: row.over_local or 0)
        return (
            f"A release pays: {best.label} at {eta_text(best.eta)} with {best.tuner} reaches "
            f"{percent(best.accuracy)}{NBSP}%. {alone}"
        )
    if not any(row.against_local == "better" for row in known if row.unprotected):
        return f"Send nothing. {alone} The provider is not surely better, even on clean text."
    return f"Send none of these releases. {alone} None is surely better."


def _what_ran(results: Results) -> str:
    sweep = results.params.sweep
    at = f" (at {eta_text(listing(sorted_etas(sweep.tune_at)))})" if sweep.probes else ""
    tuners = [*(f"{name}{at}" for name in sweep.tuners), *sweep.probes]
    tuned = f"{listing(sweep.backbones)} tuned with {listing(tuners)} on {listing(sweep.train)}; "
    denoised = f", read with {listing(sweep.denoisers)} too" if sweep.denoisers else ""
    return (
        f"{tuned if sweep.train else ''}words privatized by {listing(sweep.methods)} at "
        f"{eta_text(listing(sorted_etas(sweep.etas)))}{denoised}; "
        f"{count(results.params.seeds, 'seed')} a cell."
        + (" Sentences tell of some η, the tables of all." if len(sweep.etas) > TOLD else "")
    )


def _accuracies(rows: Sequence[Utility]) -> str:
    """Report accuracy by η and method, with the baseline."""
    parts = [
        f"{eta_text(eta)}: "
        + ", ".join(
            f"{row.label}{NBSP}{percent(row.accuracy, row.accuracy_sd)}{NBSP}%"
            for row in rows
            if row.eta == eta
        )
        for eta in _etas(rows)
    ]
    if not parts:
        return ""
    baseline = f"{percent(rows[0].majority)}{NBSP}%"
    return f"Accuracy at {'; at '.join(parts)}. Most frequent class: {baseline}."


def _attacked(rows: Sequence[Privacy]) -> Iterator[str]:
    """Report, for each kind, the attack furthest above its baseline, over all methods."""
    verbs = {
        "invert": "recovers",
        "infer": "infers",
        "recognize": "recognizes, in F1,",
        "membership": "infers",
    }
    for kind, verb in verbs.items():
        alone = [r for r in rows if r.kind == kind and not r.unprotected and r.given is None]
        if against := [row for row in alone if row.counts]:
            first = max(against, key=lambda row: (row.attack_accuracy or 0) - (row.majority or 0))
            own = [row for row in alone if row.group == first.group]
            parts = [
                f"{span(r.attack_accuracy for r in own if r.eta == eta)}{NBSP}% at {eta_text(eta)}"
                for eta in _etas(own)
            ]
            yield (
                f"{first.attack} {verb} the {first.target} of {first.task}: {listing(parts)}, over "
                f"the methods; {percent(first.clean_accuracy)}{NBSP}% on clean text "
                f"(baseline {span(r.majority for r in own)}{NBSP}%)."
            )
        elif alone:
            names = listing(list(dict.fromkeys(row.attack for row in alone)))
            yield f"No clean text shows yet that it can be attacked: nothing counts of {names}."


def _whole(results: Results) -> str:
    gates = [*results.raw_gates.values(), *results.private_gates.values()]
    passed = [gate["passed"] for gate in gates if gate]
    ran = len(results.cells) - len(results.missing())
    return (
        f"{ran} of {count(len(results.cells), 'planned cell')} have run; "
        f"{sum(passed)} of {count(len(passed), 'gate')} passed."
    )


def _etas(rows: Sequence[Utility] | Sequence[Privacy]) -> list[str]:
    return told(list({row.eta for row in rows}))


def told(etas: Sequence[str]) -> list[str]:
    """Select the η that a sentence reports: all of a few, else the ends and the middle."""
    known = sorted_etas(list(etas))
    return known if len(known) <= TOLD else [known[0], known[len(known) // 2], known[-1]]
