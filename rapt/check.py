"""What is checked before anything runs."""

from __future__ import annotations

from rapt import params
from rapt.data import sources


def check() -> params.Params:
    """Validate params.yaml and the local files that it names.

    Raises:
        RaptError: a line for each problem.
    """
    p = params.load()
    for task in p.sweep.tasks:
        sources.verify(p.tasks[task])
    return p
