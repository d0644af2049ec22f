"""What DVC says about the project: the only module that reads DVC from within Python."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
from dvc.exceptions import DvcException
from dvc.repo import Repo

from rapt.errors import RaptError

Plan = dict[str, list[str]]


def plan(root: Path) -> Plan:
    """The stages that `dvc repro` would look into, each with those of them that it waits for.

    Those are the stages that `dvc status` names and everything downstream of them; all others
    are up to date. They come in the order of the root's dvc.yaml; as `dvc repro`, nothing else is
    looked into.

    Raises:
        RaptError: DVC cannot read the project, or another DVC process holds its lock.
    """
    try:
        with Repo(str(root)) as repo:
            graph = repo.index.graph  # edges point from a stage to what it depends on
            status = repo.status()
            stages = [stage for stage in graph if stage.path_in_repo == "dvc.yaml"]
            changed = {stage for stage in stages if stage.addressing in status}
    except DvcException as error:
        raise RaptError(f"dvc: {' '.join(str(error).split())}") from error
    stale = changed.union(*(nx.ancestors(graph, stage) for stage in changed))
    return {
        stage.addressing: sorted(d.addressing for d in graph.successors(stage) if d in stale)
        for stage in stages
        if stage in stale
    }


def cache_dir(root: Path) -> Path:
    """The folder of DVC's cache, wherever the user's configuration puts it."""
    with Repo(str(root)) as repo:
        return Path(repo.cache.local_cache_dir).resolve()
