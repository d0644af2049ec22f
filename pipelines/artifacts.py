"""Prefect artifacts of a flow: its progress and, at the end, its results.

The flow does not depend on them: if the server is lost, they are not updated.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.exceptions import PrefectException

from pipelines.progress import remaining_text
from pipelines.schedule import Schedule
from rapt import paths
from rapt.params import Params
from rapt.results.reader import load

MLFLOW = "http://127.0.0.1:5000/"  # where `make mlflow` shows the runs


class Bar:
    """A progress bar of a flow: how far each kind of stage is, and how long the rest takes."""

    def __init__(self, schedule: Schedule) -> None:
        """Count the stages of each kind; nothing is shown yet."""
        self._schedule = schedule
        self._totals = Counter(stage.kind for stage in schedule.plan.values())
        self._id: UUID | None = None
        self._shown = -1
        self._lost = False

    def show(self) -> None:
        """Update the bar if a stage has ended; after one failure the server is not tried again."""
        if self._lost or self._shown == len(self._schedule.done):
            return
        self._shown = len(self._schedule.done)
        try:
            self._update()
        except (httpx.HTTPError, PrefectException):
            self._lost = True

    def _update(self) -> None:
        schedule = self._schedule
        done = Counter(schedule.plan[name].kind for name in schedule.done)
        counts = [f"{kind}: {done[kind]} of {total}" for kind, total in self._totals.items()]
        text = ", ".join(filter(None, [*counts, remaining_text(schedule.remaining())]))
        percent = 100 * len(schedule.done) / len(schedule.plan)
        if self._id:
            update_progress_artifact(self._id, percent, text)
        else:
            made = create_progress_artifact(percent, "stages", text)
            self._id = cast(UUID, made)  # not a coroutine, as no event loop runs here


def results(experiment: Params, run_in_mlflow: str | None) -> None:
    """Attach the cells' figures, the Pareto plots and a link to MLflow to the flow run.

    Args:
        experiment: the experiment's params.
        run_in_mlflow: path below MLflow's address; None: MLflow has no such run.
    """
    create_table_artifact(_figures(experiment), "cells", "Every cell, mean over its seeds")
    for plot in sorted(paths.FIGURES.glob("pareto-*.svg")):
        drawing = base64.b64encode(plot.read_bytes()).decode()
        create_image_artifact(f"data:image/svg+xml;base64,{drawing}", plot.stem, plot.stem)
    if run_in_mlflow:
        create_link_artifact(
            MLFLOW + run_in_mlflow, key="mlflow", description="`make mlflow` first"
        )


def _figures(experiment: Params) -> list[dict[str, str | float]]:
    return [
        {"cell": f"{cell.plan.kind}/{cell.plan.cell}", "protection": cell.protection}
        | {
            name: round(metric.mean, 4)
            for name, metric in (cell.content.metrics if cell.content else {}).items()
        }
        for cell in load(experiment).cells
    ]
