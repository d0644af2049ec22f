"""A provider who learns from public labelled text, and needs no label of the user's: its cells."""

from __future__ import annotations

from rapt.grid import PlannedCell, releases
from rapt.params import Params

# The kind of these cells, and their tuner. No tuner of params.yaml can have this name.
PUBLIC_LABELS = "public_labels"
STAGE = "public-labels"


def plan(params: Params) -> list[PlannedCell]:
    """Return a cell for each release of each private task that has a public one, clean text first.

    One stage scores all releases of a task, as the provider fits one model. So the cells of a task
    lie in one folder. The factor `backbone` names the public task.
    """
    return [
        PlannedCell(
            PUBLIC_LABELS,
            f"{task}/{name}",
            {
                **{"task": task, "backbone": public, "tuner": PUBLIC_LABELS},
                **{"method": method, "eta": eta, "embedding": params.embedding},
            },
            STAGE,
            task,
        )
        for task, public in params.public_labels.items()
        for name, method, eta in releases(params)
    ]
