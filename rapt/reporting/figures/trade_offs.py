"""Figures of accuracy against empirical privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from rapt.reporting import tables
from rapt.reporting.figures.drawing import (
    Figure,
    clean_line,
    finish,
    floor_line,
    line,
    panel,
    slug,
    spoken,
)
from rapt.reporting.figures.style import PALETTE, PAPER
from rapt.reporting.tables import Privacy, Utility
from rapt.reporting.text import attack_text, group_text, unproven


@dataclass(frozen=True)
class TradeOff:
    """The accuracies of one tuned group against one attack on its adapters or releases."""

    group: tuple[str, str, str]
    attack: tuple[str, str, str]
    # Label → the points by η at which both have run.
    points: dict[str, list[tuple[Privacy, Utility]]]
    majority: float | None
    # The baseline; only its accuracy is drawn, as nothing in it is private.
    clean: Utility | None
    doubt: str | None

    @property
    def name(self) -> str:
        """The figure's name."""
        attack, task, target = self.attack
        return "pareto-" + "-".join([*self.group, attack, slug(task), slug(target)])


def pairs(utility: Sequence[Utility], privacy: Sequence[Privacy]) -> Iterator[TradeOff]:
    """Yield a trade-off for each tuned group and each attack on it that has run.

    A denoised cell has the privacy of its release, but not that of the adapter without denoising.
    """
    for group in tables.groups(utility):
        own = [r for r in utility if r.on_grid and r.group == group and r.accuracy is not None]
        own.sort(key=lambda row: float(row.eta))
        for attack in tables.groups(privacy):
            every = [row for row in privacy if row.group == attack]
            at = {(r.method, r.eta): r for r in tables.drawn(every)}
            points = {
                label: [
                    (p, r)
                    for r in own
                    if r.label == label
                    and (p := at.get((r.method, r.eta))) is not None
                    and p.concerns(r)
                ]
                for label in tables.labels(utility)
            }
            if any(points.values()):
                clean = tables.clean(utility, group)
                yield TradeOff(group, attack, points, own[0].majority, clean, tables.doubt(every))


def trade_offs(utility: Sequence[Utility], privacy: Sequence[Privacy]) -> Iterator[Figure]:
    """Draw one panel for each tuned group and attack on it."""
    for found in pairs(utility, privacy):
        attack, _, target = found.attack
        with panel() as (canvas, axes):
            for number, (label, points) in enumerate(found.points.items()):
                line(
                    axes,
                    number,
                    label,
                    [100 * (p.empirical_privacy or 0) for p, _ in points],
                    [100 * (u.accuracy or 0) for _, u in points],
                    [100 * (p.empirical_privacy_sd or 0) for p, _ in points],
                    [100 * (u.accuracy_sd or 0) for _, u in points],
                )
                for p, u in points:
                    _annotate(axes, number, p, u)
            if found.clean:
                clean_line(axes, found.clean.accuracy, found.clean.accuracy_sd)
            floor_line(axes, found.majority)
            axes.set_xlabel(f"empirical privacy, % ({attack}: {target})")
            axes.set_ylabel("accuracy, %")
            axes.set_title(group_text(found.group))
            axes.margins(0.12)
            yield finish(
                canvas,
                "trade-off",
                found.name,
                f"{group_text(found.group)} against {attack_text(*found.attack)}. Up and to the "
                "right is better; every point is one η, its bars one standard deviation over "
                f"seeds.{unproven(found.doubt)}",
                spoken(
                    "Accuracy against empirical privacy",
                    {
                        f"{label}, η {u.eta}": (p.empirical_privacy, u.accuracy)
                        for label, points in found.points.items()
                        for p, u in points
                    },
                ),
            )


def _annotate(axes: Axes, number: int, p: Privacy, u: Utility) -> None:
    """Write η beside a point, on a different side for each method, as points may be close."""
    x, y = ((-10, -13), (13, 4), (0, 9), (-14, 4), (0, -16), (12, -13))[number % 6]
    axes.annotate(
        u.eta,
        (100 * (p.empirical_privacy or 0), 100 * (u.accuracy or 0)),
        (x, y),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=PALETTE[number % len(PALETTE)],
        # An outline would turn the text into paths, a hundred kilobytes a figure.
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.3, "alpha": 0.8},
    )
