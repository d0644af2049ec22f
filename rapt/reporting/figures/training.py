"""The curves of the training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.ticker import MaxNLocator

from rapt.grid import CLEAN
from rapt.reporting import tables
from rapt.reporting.figures.drawing import Figure, finish, line, panel, slug, spoken
from rapt.results.reader import Cell, Results


def trainings(results: Results) -> Iterator[Figure]:
    """Small multiples: a panel for each method (or study) and curve, a line for each η."""
    rows = tables.utility(results)
    multiples: list[tuple[str, list[Cell]]] = [
        (
            " · ".join([*group, label]),
            sorted(
                (
                    cell
                    for kind in ("train", "denoise")
                    for cell in results.of(
                        kind, **dict(zip(("task", "backbone", "tuner"), group, strict=True))
                    )
                    if cell.label == label
                ),
                key=lambda cell: float(cell.factors["eta"]),
            ),
        )
        for group in tables.groups(rows)
        for label in [*tables.labels(rows), CLEAN]
    ]
    multiples += [(f"study · {cell.plan.cell}", [cell]) for cell in results.of("study")]
    for title, cells in multiples:
        names = dict.fromkeys(name for cell in cells for name in cell.curves())
        # The loss that decides stands first.
        for name in sorted(names, key=lambda n: (n != "task_loss", "loss" not in n, n)):
            yield _training(title, name, cells)


def _label(cell: Cell) -> str:
    return CLEAN if cell.factors["method"] == CLEAN else f"η {cell.factors['eta']}"


def _training(title: str, name: str, cells: Sequence[Cell]) -> Figure:
    with panel(3.4, 2.5) as (canvas, axes):
        for number, cell in enumerate(cells):
            for seed, values in enumerate(cell.curves().get(name, [])):
                epochs = list(range(1, len(values) + 1))
                label = _label(cell) if seed == 0 else "_"
                line(axes, number, label, epochs, values, size=4, width=1.3)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(title.split(" · ")[-1])
        axes.set_ylabel(name.replace("_", " "))
        last = {
            f"{_label(cell)}, seed {seed}": (values[-1],)
            for cell in cells
            for seed, values in enumerate(cell.curves().get(name, []))
        }
        return finish(
            canvas,
            "training",
            slug(f"training-{title}-{name}"),
            f"{title}: {name.replace('_', ' ')}, one line a seed.",
            spoken(f"{name.replace('_', ' ')} after the last epoch", last, scale=1),
        )
