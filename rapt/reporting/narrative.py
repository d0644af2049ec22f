"""The report's headline, computed from the cells."""

from __future__ import annotations

from collections.abc import Sequence

from rapt.grid import PUBLIC_LABELS, sorted_etas
from rapt.reporting import tables
from rapt.reporting.rows import Row
from rapt.reporting.text import NBSP, at_eta, count, eta_text, labels_text, listing, percent
from rapt.reporting.utility_table import utility
from rapt.results.reader import Results


def headline(results: Results) -> list[tuple[str, str]]:
    """Return up to three lines with headings: advice, what ran, what is missing."""
    tuned = [row for row in utility(results) if row.on_grid and row.accuracy is not None]
    attacks = [row for row in tables.privacy(results) if row.attack_accuracy is not None]
    lines = {
        "Advice": advice(tuned, attacks, _more_rows(results)),
        "What ran": _what_ran(results),
        "State": _state(results),
    }
    return [(heading, line) for heading, line in lines.items() if line]


def advice(rows: Sequence[Row], attacks: Sequence[Row], more: str = "") -> str:
    """Say whether a release is worth sending; empty where sending nothing has not been measured.

    Args:
        rows: of the grid, with results.
        attacks: with results.
        more: what to do where the rows are too few to tell.
    """
    measured = [row for row in rows if row.against_local]
    known = [row for row in measured if row.task == measured[0].task]
    if not known:
        return ""
    first, on_clean = known[0], [row for row in known if row.unprotected]
    plain = [row for row in on_clean if row.training_epsilon is None]
    clean = max(plain, key=lambda row: row.over_local or 0, default=None)
    alone = f"{_alone(first)} with nothing sent.{_at_home(on_clean)}"
    released = [row for row in known if not row.unprotected]
    paying = [row for row in released if row.against_local == "better"]
    if paying:
        best = max(paying, key=lambda row: row.over_local or 0)
        return (
            f"A release pays: {best.label} {at_eta(best.eta)} with {best.tuner} reaches "
            f"{percent(best.accuracy)}{NBSP}%. {alone}{_read(best, attacks)}"
        )
    lows = [first.local_low, *(row.accuracy_low for row in plain)]
    if not any(low and low > (first.majority or 0) for low in lows):
        provider = f" nor the provider on clean text ({percent(clean.accuracy)})" if clean else ""
        return (
            f"Too few rows to tell: neither a local model ({percent(first.local)}){provider} is "
            f"surely above the most frequent class ({percent(first.majority)}). {more}"
        )
    if plain and all(row.against_local != "better" for row in plain):
        even = "The provider is not surely better, even on clean text."
        return f"Send nothing. {alone} {even}{_worth(released)}"
    return f"Send none of these releases. {alone} None is surely better.{_worth(released)}"


def _worth(released: Sequence[Row]) -> str:
    """Say with how few labels of one's own the best release would be better than a local model.

    Where a public task is named, say it also of a provider who has learnt from that task alone.
    """
    alone = [row for row in released if not row.with_local and row.labels_from is not None]
    public = [row for row in alone if row.kind == PUBLIC_LABELS]
    tuned = [row for row in alone if row.kind != PUBLIC_LABELS]
    return "".join(_best_worth(rows) for rows in (tuned, public) if rows)


def _best_worth(rows: Sequence[Row]) -> str:
    best = max(rows, key=lambda row: row.accuracy)
    where = f"The best, {best.label} {at_eta(best.eta)} with {best.tuner},"
    if best.kind == PUBLIC_LABELS:
        where = (
            f"The best for a provider who has the labels of {best.backbone} and none of yours, "
            f"{best.label} {at_eta(best.eta)},"
        )
    if best.break_even == 0:
        return f" {where} is no better than a local model with {best.labels_from:g} labels."
    found, low, high = (
        labels_text(labels, best.labels_from, best.labels_to)
        for labels in (best.break_even, best.break_even_low, best.break_even_high)
    )
    about = "" if best.break_even is None else "about "
    return (
        f" {where} is as good as a local model with {about}{found} labels ({low} to "
        f"{high}): with fewer of your own it pays."
    )


def _at_home(on_clean: Sequence[Row]) -> str:
    """State the best accuracy of models that were tuned privately on clean text, if any."""
    tuned = [row for row in on_clean if row.training_epsilon is not None]
    if not tuned:
        return ""
    best = max(tuned, key=lambda row: row.accuracy)
    verdict = {"better": "surely better", "worse": "surely worse"}.get(best.against_local, "unsure")
    return (
        f" Tuned on clean text at home, with differential privacy of ε{NBSP}={NBSP}"
        f"{best.training_epsilon:.3g} per {best.training_unit}, a model to hand on reaches "
        f"{percent(best.accuracy)}{NBSP}% by {best.tuner}: {verdict}."
    )


def _alone(row: Row) -> str:
    """State the accuracy of sending nothing."""
    if row.local == row.to_beat:
        return f"A local model reaches {percent(row.local)}{NBSP}%"
    return (
        f"The most frequent class is right in {percent(row.majority)}{NBSP}% and a local model in "
        f"{percent(row.local)}{NBSP}%,"
    )


def _read(release: Row, attacks: Sequence[Row]) -> str:
    """Say what the strongest attack reads, and whether that is more than single words can tell."""
    attack = tables.strongest(tables.on_release(release, attacks))
    on_words = tables.on_words(release, attacks)
    reads = tables.strongest(on_words)
    said = ""
    if attack and attack.kind == "link":
        share = f"{percent(attack.attack_accuracy)}{NBSP}%"
        said = f" {attack.attack} finds the original of {share} of its texts."
    if reads is None:
        return said
    # The bound is the channel's: an attack without one may be what finds the leak.
    most = min((row.accuracy_ceiling for row in on_words if row.accuracy_ceiling), default=None)
    least = reads.attack_accuracy_low
    leaks = most is not None and least is not None and least > most
    if said and not leaks:
        return said
    said += f" {reads.attack} reads {percent(reads.attack_accuracy)}{NBSP}% of its protected words"
    if not leaks:
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
    made = ""
    if sweep.synthesizers:
        epsilons = listing(sorted_etas(sweep.epsilons))
        made = f"; synthetic texts by {listing(sweep.synthesizers)} at ε{NBSP}={NBSP}{epsilons}"
    denoised = f", read with {listing(sweep.denoisers)} too" if sweep.denoisers else ""
    return (
        f"{tuned if sweep.train else ''}words privatized by {listing(sweep.methods)} at "
        f"{eta_text(listing(sorted_etas(sweep.etas)))}{denoised}{made}; "
        f"{count(results.params.seeds, 'seed')} a cell.{_sampled(results)}"
    )


def _sampled(results: Results) -> str:
    """Say which part of each task's rows this is, and whether the cheap tuner alone was tuned."""
    drawn = [f"{n:,} of the {of:,} of {task}" for task, (n, of) in _drawn(results).items()]
    sweep = results.params.sweep
    cheap = sweep.train and sweep.probes and not sweep.tuners
    said = f" A sample of the rows: {listing(drawn)}." if drawn else ""
    return said + (" Only the cheap tuner ran." if cheap else "")


def _drawn(results: Results) -> dict[str, tuple[int, int]]:
    """Return the rows that ran, and all rows, of each task of which a sample ran."""
    found = {}
    for task, gate in results.raw_gates.items():
        if gate and (others := gate["dropped"].get("not drawn", 0)):
            rows = sum(gate["rows"].values())
            found[task] = rows, rows + others
    return found


def _more_rows(results: Results) -> str:
    """Say where more rows are to be had."""
    train = results.params.sweep.train
    drawn = [f"{n:,} of {of:,}" for task, (n, of) in _drawn(results).items() if task in train[:1]]
    if not drawn:
        return "Label more rows."
    return f"{drawn[0]} rows ran: `rapt init … --full` takes all, and `rapt plan` says how long."


def _state(results: Results) -> str:
    gates = [*results.raw_gates.values(), *results.private_gates.values()]
    passed = [gate["passed"] for gate in gates if gate]
    ran = len(results.cells) - len(results.missing())
    return (
        f"{ran} of {count(len(results.cells), 'planned cell')} have run; "
        f"{sum(passed)} of {count(len(passed), 'gate')} passed."
    )
