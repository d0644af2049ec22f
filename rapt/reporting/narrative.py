"""The report's headline, computed from the cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapt.grid import sorted_etas
from rapt.reporting import tables
from rapt.reporting.comparisons import unbeaten
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import NBSP, count, eta_text, group_text, listing, percent, span
from rapt.reporting.written import by_task
from rapt.results.reader import Results

# What an attack of a kind does with its target.
VERBS = {
    "invert": "recovers",
    "infer": "infers",
    "recognize": "recognizes, in F1,",
    "membership": "infers",
}


def headline(results: Results) -> list[tuple[str, str]]:
    """Return up to six lines with headings: advice, what ran, its results, what is missing."""
    utility = tables.utility(results)
    tuned = [row for row in utility if row.on_grid and row.accuracy is not None]
    first = [row for row in tuned if row.group == tuned[0].group]
    attacks = [row for row in tables.privacy(results) if row.attack_accuracy is not None]
    lines = {
        "Advice": advice(tuned, attacks),
        "What ran": _what_ran(results),
        "Accuracy": _accuracy(first, many=len(tables.groups(utility)) > 1) if first else "",
        "Written": _written(results),
        "Attacked": " ".join(_attacked(attacks)),
        "State": _state(results),
    }
    return [(heading, line) for heading, line in lines.items() if line]


def advice(rows: Sequence[Utility], attacks: Sequence[Privacy]) -> str:
    """Say whether a release is worth sending; empty where sending nothing has not been measured.

    Args:
        rows: of the grid, with results.
        attacks: with results.
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
            f"{percent(best.accuracy)}{NBSP}%. {alone}{_read(best, attacks)}"
        )
    if not any(row.against_local == "better" for row in known if row.unprotected):
        return f"Send nothing. {alone} The provider is not surely better, even on clean text."
    return f"Send none of these releases. {alone} None is surely better."


def _read(release: Utility, attacks: Sequence[Privacy]) -> str:
    """Say what the strongest attack reads, and whether that is more than single words can tell."""
    own = tables.on_words(release, attacks)
    attack = tables.strongest(own)
    if attack is None:
        return ""
    said = f" {attack.attack} reads {percent(attack.attack_accuracy)}{NBSP}% of its protected words"
    # The bound is the channel's: an attack without one may be what finds the leak.
    most = min((row.accuracy_ceiling for row in own if row.accuracy_ceiling), default=None)
    left = attack.empirical_privacy_high
    if most is None or left is None or 1 - left <= most:
        return f"{said}."
    return (
        f"{said}, and single words tell {percent(most)}{NBSP}% at most. Do not send it before you "
        "know why: its noise may leak."
    )


def _what_ran(results: Results) -> str:
    sweep = results.params.sweep
    at = f" (at {eta_text(listing(sorted_etas(sweep.tune_at)))})" if sweep.probes else ""
    tuners = [*(f"{name}{at}" for name in sweep.tuners), *sweep.probes]
    tuned = f"{listing(sweep.backbones)} tuned with {listing(tuners)} on {listing(sweep.train)}; "
    denoised = f", read with {listing(sweep.denoisers)} too" if sweep.denoisers else ""
    return (
        f"{tuned if sweep.train else ''}words privatized by {listing(sweep.methods)} at "
        f"{eta_text(listing(sorted_etas(sweep.etas)))}{denoised}; "
        f"{count(results.params.seeds, 'seed')} a cell.{_sampled(results)}"
    )


def _sampled(results: Results) -> str:
    """Say which part of each task's rows this is, and whether the cheap tuner alone was tuned."""
    drawn = []
    for task, gate in results.raw_gates.items():
        if gate and (others := gate["dropped"].get("not drawn", 0)):
            rows = sum(gate["rows"].values())
            drawn.append(f"{rows:,} of the {rows + others:,} of {task}")
    sweep = results.params.sweep
    cheap = sweep.train and sweep.probes and not sweep.tuners
    said = f" A sample of the rows: {listing(drawn)}." if drawn else ""
    return said + (" Only the cheap tuner ran." if cheap else "")


def _accuracy(rows: Sequence[Utility], *, many: bool) -> str:
    """Report the accuracy of each method, from the least to the greatest over η."""
    over = f"{group_text(rows[0].group)}, over η" if many else "Over η"
    found: dict[str, list[float | None]] = {}
    for row in rows:
        found.setdefault("clean text" if row.unprotected else row.label, []).append(row.accuracy)
    parts = ", ".join(f"{name} {span(shares)}{NBSP}%" for name, shares in found.items())
    return f"{over}: {parts}. Most frequent class: {percent(rows[0].majority)}{NBSP}%."


def _written(results: Results) -> str:
    """Report the BLEU of what was written for the first group of cells, over methods and η."""
    for group, cells in by_task(results).items():
        rows = [row for row, _ in cells if row.bleu is not None]
        if not rows:
            continue
        own, clean = ([r.bleu for r in rows if r.unprotected is one] for one in (False, True))
        return (
            f"{group_text(group)}: BLEU {span(own)}{NBSP}% over methods and η, "
            f"{span(clean)}{NBSP}% on clean text. The source as it is: "
            f"{percent(rows[0].copied)}{NBSP}%."
        )
    return ""


def _attacked(rows: Sequence[Privacy]) -> Iterator[str]:
    """Report, for each target, the strongest attack on each release, over all methods and η."""
    for kind, verb in VERBS.items():
        alone = [r for r in rows if r.kind == kind and not r.unprotected and r.given is None]
        targets = {row.group[1:]: row for row in tables.counting(alone)}
        for of, row in targets.items():
            releases = tables.by_release(attack for attack in alone if attack.group[1:] == of)
            best = [found for own in releases if (found := tables.strongest(own))]
            several = [own for own in releases if len(tables.counting(own)) > 1]
            sure = sum(len(unbeaten(own)) == 1 for own in several)
            told = f" On {sure} of {count(len(several), 'release')} one is surely above all others."
            told = told if several else ""
            yield (
                f"The strongest attack {verb} the {row.target} of {row.group[1]}: "
                f"{span(found.attack_accuracy for found in best)}{NBSP}% over methods and η, by "
                f"{listing(list(dict.fromkeys(found.attack for found in best)))}; "
                f"{span(found.clean_accuracy for found in best)}{NBSP}% on clean text "
                f"(baseline {span(found.majority for found in best)}{NBSP}%).{told}"
            )
        if alone and not targets:
            names = listing(list(dict.fromkeys(row.attack for row in alone)))
            yield f"No clean text shows yet that it can be attacked: nothing counts of {names}."


def _state(results: Results) -> str:
    gates = [*results.raw_gates.values(), *results.private_gates.values()]
    passed = [gate["passed"] for gate in gates if gate]
    ran = len(results.cells) - len(results.missing())
    return (
        f"{ran} of {count(len(results.cells), 'planned cell')} have run; "
        f"{sum(passed)} of {count(len(passed), 'gate')} passed."
    )
