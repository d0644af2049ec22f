"""Plain sentences, each computed from the cells: no figure and no conclusion stands here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapt.plan import sorted_etas
from rapt.reporting import tables
from rapt.reporting.cells import Results
from rapt.reporting.tables import Difference, Privacy, Utility
from rapt.reporting.text import attack_text, count, eta_text, group_text, listing, percent, points


def headline(results: Results) -> list[str]:
    """At most five lines: what ran, what it gives, whether it is whole."""
    lines = [_what_ran(results), *_main_result(results), *_main_attack(results), _whole(results)]
    return lines[:5]


def readings(results: Results) -> list[str]:
    """What to read off: the price of privacy, the methods side by side, the attacks."""
    utility, privacy = tables.utility(results), tables.privacy(results)
    return [
        *_prices(utility),
        *_comparisons(tables.differences(results)),
        *_attacks(privacy),
    ]


def _what_ran(results: Results) -> str:
    sweep = results.params.sweep
    tuned = (
        f"{listing(sweep.backbones)} tuned with {listing(sweep.tuners)} on {listing(sweep.train)}"
    )
    return (
        f"{tuned}; words privatized by {listing(sweep.methods)} at "
        f"η = {listing(sorted_etas(sweep.etas))}; {count(results.params.seeds, 'seed')} a cell."
    )


def _main_result(results: Results) -> Iterator[str]:
    """Clean text, then every finite η, of the first group that has run."""
    ran = [r for r in tables.utility(results) if r.kind == "train" and r.accuracy is not None]
    if not ran:
        return
    first = [row for row in ran if row.group == ran[0].group]
    if clean := [row for row in first if row.unprotected]:
        yield (
            f"On clean text (η = inf) {group_text(ran[0].group)} is right in "
            f"{_by_method(clean)} % of the test texts; always answering the most frequent class, "
            f"in {percent(clean[0].majority)} %."
        )
    protected = [row for row in first if not row.unprotected]
    parts = [
        f"at {eta_text(eta)} {_by_method([row for row in protected if row.eta == eta])} %"
        for eta in _etas(protected)
    ]
    if parts:
        yield f"On privatized text: {'; '.join(parts)}."


def _by_method(rows: Sequence[Utility]) -> str:
    return listing([f"{percent(row.accuracy, row.accuracy_sd)} ({row.method})" for row in rows])


def _main_attack(results: Results) -> Iterator[str]:
    """The first attack that has run, over the methods."""
    ran = [row for row in tables.privacy(results) if row.attack_accuracy is not None]
    if not ran:
        return
    attack, task, target = ran[0].group
    parts = [
        f"{_range([r for r in ran if r.group == ran[0].group and r.eta == eta])} at {eta_text(eta)}"
        for eta in _etas([row for row in ran if row.group == ran[0].group])
    ]
    yield (
        f"The attack {attack} finds out the {target} of {task} in {listing(parts)} "
        f"of the cases, over the methods (floor {percent(ran[0].majority)} %)."
    )


def _range(rows: Sequence[Privacy]) -> str:
    values = sorted(row.attack_accuracy for row in rows if row.attack_accuracy is not None)
    low, high = percent(values[0]), percent(values[-1])
    return f"{low} %" if low == high else f"{low} to {high} %"


def _whole(results: Results) -> str:
    gates = [
        gate for gate in [*results.raw_gates.values(), *results.private_gates.values()] if gate
    ]
    passed = sum(gate["passed"] for gate in gates)
    ran = len(results.cells) - len(results.missing())
    return (
        f"{ran} of {count(len(results.cells), 'planned cell')} have run; "
        f"{passed} of {count(len(gates), 'gate')} passed."
    )


def _prices(rows: Sequence[Utility]) -> Iterator[str]:
    """What each η costs against the same method on clean text."""
    for group in tables.groups(rows):
        ran = [r for r in rows if r.kind == "train" and r.group == group and r.accuracy is not None]
        clean = {row.method: row.accuracy for row in ran if row.unprotected}
        parts = []
        for eta in _etas([row for row in ran if not row.unprotected]):
            costs = [
                f"{points(row.accuracy - baseline)} with {row.method}"
                for row in ran
                if row.eta == eta
                and row.accuracy is not None
                and (baseline := clean.get(row.method)) is not None
            ]
            if costs:
                parts.append(f"{listing(costs)} at {eta_text(eta)}")
        if parts:
            yield (
                f"{group_text(group)}: against the same method on clean text, accuracy changes by "
                f"{'; by '.join(parts)} (percentage points)."
            )


def _comparisons(rows: Sequence[Difference]) -> Iterator[str]:
    """The methods side by side; equal seeds share the words' noise, so they are paired."""
    for group, method, against in dict.fromkeys((r.group, r.method, r.against) for r in rows):
        parts = [
            f"{points(r.mean)} at {eta_text(r.eta)} ({_verdict(r)})"
            for r in rows
            if (r.group, r.method, r.against) == (group, method, against)
        ]
        yield (
            f"{group_text(group)}: {method} less {against} in accuracy, paired by seed: "
            f"{', '.join(parts)} percentage points."
        )


def _verdict(row: Difference) -> str:
    if row.low is None or row.high is None:
        return f"n = {row.seeds}: {row.verdict}"
    interval = f"95 % interval {points(row.low)} to {points(row.high)}"
    return f"n = {row.seeds}, {interval}: {row.verdict}"


def _attacks(rows: Sequence[Privacy]) -> Iterator[str]:
    """Each attack against its floor and its clean baseline; a broken one is called so."""
    for group in tables.groups(rows):
        ran = [r for r in rows if r.group == group and r.attack_accuracy is not None]
        if broken := list(dict.fromkeys(row.method for row in ran if row.broken)):
            yield (
                f"{attack_text(*group)}: broken with {listing(broken)}. On clean text it does not "
                f"beat its floor of {percent(ran[0].majority)} %, so what it fails to learn says "
                "nothing about privacy."
            )
        sound = [row for row in ran if row.broken is False and not row.unprotected]
        for method in dict.fromkeys(row.method for row in sound):
            own = [row for row in sound if row.method == method]
            at = [f"{percent(r.attack_accuracy)} % at {eta_text(r.eta)}" for r in _sorted(own)]
            yield (
                f"{attack_text(*group)}: against {method} it is right in {listing(at)}; on clean "
                f"text in {percent(own[0].clean_accuracy)} %, by the floor in "
                f"{percent(own[0].majority)} %."
            )


def _etas(rows: Sequence[Utility] | Sequence[Privacy]) -> list[str]:
    return sorted_etas(list({row.eta for row in rows}))


def _sorted(rows: Sequence[Privacy]) -> list[Privacy]:
    return sorted(rows, key=lambda row: float(row.eta))
