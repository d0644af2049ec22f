"""Accuracy against empirical privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from rapt.reporting import tables
from rapt.reporting.figures.drawing import Figure, finish, floor_line, line, panel, slug, spoken
from rapt.reporting.figures.style import PALETTE, PAPER
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import attack_text, group_text


def trade_offs(utility: Sequence[Utility], privacy: Sequence[Privacy]) -> Iterator[Figure]:
    """Accuracy against empirical privacy: for each tuned group, each attack that fits it.

    What is denoised has the privacy of its release; of its adapter it is another.
    """
    for group in tables.groups(utility):
        for attack in tables.groups(privacy):
            name, task, target = attack
            own = [r for r in utility if r.on_grid and r.group == group]
            at = {(r.method, r.eta): r for r in privacy if r.group == attack}
            points = {
                label: [
                    (p, r)
                    for r in _by_eta(own)
                    if r.label == label
                    and r.accuracy is not None
                    and (p := at.get((r.method, r.eta))) is not None
                    and p.concerns(r)
                    and p.empirical_privacy is not None
                ]
                for label in tables.labels(utility)
            }
            if not any(points.values()):
                continue
            with panel() as (canvas, axes):
                for number, (label, pairs) in enumerate(points.items()):
                    if not pairs:
                        continue
                    line(
                        axes,
                        number,
                        label,
                        [100 * (p.empirical_privacy or 0) for p, _ in pairs],
                        [100 * (u.accuracy or 0) for _, u in pairs],
                        [100 * (p.empirical_privacy_sd or 0) for p, _ in pairs],
                        [100 * (u.accuracy_sd or 0) for _, u in pairs],
                    )
                    for p, u in pairs:
                        _annotate(axes, number, p, u)
                floor_line(axes, next((r.majority for r in own if r.majority), None))
                axes.set_xlabel(f"empirical privacy, % ({name}: {target})")
                axes.set_ylabel("accuracy, %")
                axes.set_title(f"{group_text(group)}")
                axes.margins(0.12)
                yield finish(
                    canvas,
                    "trade-off",
                    "pareto-" + "-".join([*group, name, slug(task), slug(target)]),
                    f"{group_text(group)} against {attack_text(*attack)}. Up and to the right is "
                    "better; every point is one η, its bars one standard deviation over seeds.",
                    spoken(
                        "Accuracy against empirical privacy",
                        {
                            f"{label}, η {u.eta}": (p.empirical_privacy, u.accuracy)
                            for label, pairs in points.items()
                            for p, u in pairs
                        },
                    ),
                )


def _annotate(axes: Axes, number: int, p: Privacy, u: Utility) -> None:
    """The η beside its point; methods turn to different sides, as their points lie close."""
    x, y = ((-10, -13), (13, 4), (0, 9), (-14, 4), (0, -16), (12, -13))[number % 6]
    axes.annotate(
        u.eta,
        (100 * (p.empirical_privacy or 0), 100 * (u.accuracy or 0)),
        (x, y),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=PALETTE[number % len(PALETTE)],
        path_effects=[withStroke(linewidth=3, foreground=PAPER)],
    )


def _by_eta(rows: Sequence[Utility]) -> list[Utility]:
    return sorted(rows, key=lambda row: float(row.eta))
