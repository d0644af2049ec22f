"""What DVC says about the project: the only module that reads DVC from within Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import networkx as nx
from dvc.exceptions import DvcException
from dvc.repo import Repo

from rapt.errors import RaptError


@dataclass(frozen=True)
class Stage:
    """A stage that `dvc repro` would look into."""

    name: str
    # Those of these stages whose outs it reads.
    upstream: tuple[str, ...]
    # Whether it gains from a GPU: `meta: {gpu: true}` in dvc.yaml.
    gpu: bool = False

    @property
    def kind(self) -> str:
        """Its name without what a matrix adds."""
        return self.name.partition("@")[0]


Plan = dict[str, Stage]


def plan(root: Path) -> Plan:
    """The stages that `dvc repro` would look into, by name, each with those that it waits for.

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
        stage.addressing: Stage(
            stage.addressing,
            tuple(sorted(d.addressing for d in graph.successors(stage) if d in stale)),
            gpu=bool((stage.meta or {}).get("gpu")),
        )
        for stage in stages
        if stage in stale
    }


def downstream(plan: Plan, names: set[str]) -> set[str]:
    """The stages that wait for one of `names`, or for one of these."""
    graph = nx.DiGraph((up, stage.name) for stage in plan.values() for up in stage.upstream)
    return set().union(*(nx.descendants(graph, name) for name in names if name in graph))


def cache_dir(root: Path) -> Path:
    """The folder of DVC's cache, wherever the user's configuration puts it."""
    with Repo(str(root)) as repo:
        return Path(repo.cache.local_cache_dir).resolve()
