"""The project's stages, their dependencies and the cache, as DVC reports them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
from ruamel.yaml import YAML

from pipelines.dvc_api import DvcException, LockError, PipelineStage, Repo
from rapt import paths
from rapt.utils.errors import RaptError, not_allowed


@dataclass(frozen=True)
class Stage:
    """A stage that `dvc repro` would look into."""

    name: str
    # The stages of the same plan whose outs it reads.
    upstream: tuple[str, ...]
    # Whether it gains from a GPU: `meta: {gpu: true}` in dvc.yaml, but for tuners of type tfidf.
    gpu: bool = False
    # `provider` if it may run on the provider's machines: `meta: {side: provider}`.
    side: str = "user"

    @property
    def kind(self) -> str:
        """The stage's name without the matrix suffix."""
        return self.name.partition("@")[0]


Plan = dict[str, Stage]
# The outs that a stage needs, by the stage that makes them.
Needs = dict[str, list[str]]
SIDES = ("provider", "user")
FORGET = " If it was killed: rm .dvc/tmp/rwlock"  # DVC's record of what which process writes


def plan(root: Path) -> Plan:
    """Return the stages that `dvc repro` would check, by name, each with those it waits for.

    These are the stages that `dvc status` names and everything downstream of them; all others
    are up to date. They come in the order of the root's dvc.yaml. Like `dvc repro`, this ignores
    other dvc.yaml files.

    Raises:
        RaptError: DVC cannot read the project, another DVC process is at work in it, or a side is
            misspelled.
    """
    try:
        with Repo(str(root)) as repo:
            graph = repo.index.graph  # edges point from a stage to what it depends on
            status = repo.status()
            stages = [stage for stage in graph if stage.path_in_repo == "dvc.yaml"]
            changed = {stage for stage in stages if stage.addressing in status}
    except LockError as error:
        raise RaptError(_busy(error)) from error
    except DvcException as error:
        raise RaptError(_of_dvc(error)) from error
    tuners = YAML(typ="safe").load(root / paths.PARAMS).get("tuners", {})
    stale = changed.union(*(nx.ancestors(graph, stage) for stage in changed))
    return {
        stage.addressing: Stage(
            stage.addressing,
            tuple(sorted(d.addressing for d in graph.successors(stage) if d in stale)),
            gpu=bool((stage.meta or {}).get("gpu")) and not _on_cpu(stage, tuners),
            side=_side(stage),
        )
        for stage in stages
        if stage in stale
    }


def left(root: Path) -> list[str]:
    """Return the outs that are there of stages which params.yaml no longer plans."""
    lock = root / "dvc.lock"
    locked = YAML(typ="safe").load(lock)["stages"] if lock.is_file() else {}
    with Repo(str(root)) as repo:
        live = {stage.addressing for stage in repo.index.stages}
        made = {out.fspath for stage in repo.index.stages for out in stage.outs}
    outs = (out["path"] for name in locked.keys() - live for out in locked[name].get("outs", ()))
    return sorted(path for path in outs if str(root / path) not in made and (root / path).exists())


def downstream(plan: Plan, names: set[str]) -> set[str]:
    """Return the stages that depend on one of `names`, directly or through other stages."""
    graph = nx.DiGraph((up, stage.name) for stage in plan.values() for up in stage.upstream)
    return set().union(*(nx.descendants(graph, name) for name in names if name in graph))


def cache_dir(root: Path) -> Path:
    """Return the folder of DVC's cache, as the user's configuration has it."""
    with Repo(str(root)) as repo:
        return Path(repo.cache.local_cache_dir).resolve()


def uncached(root: Path) -> list[str]:
    """Return the files that stages leave to git (`cache: false`), as paths from the root."""
    with Repo(str(root)) as repo:
        stages = [stage for stage in repo.index.stages if stage.path_in_repo == "dvc.yaml"]
        outs = [Path(out.fs_path) for s in stages for out in s.outs if not out.use_cache]
        return [str(path.relative_to(root)) for path in outs if not path.is_dir()]


def provider_side(root: Path) -> dict[str, Needs]:
    """Return the needs of the stages that dvc.yaml gives to the provider (`side: provider`).

    Raises:
        RaptError: such a stage needs an out with `push: false`, or no remote is configured to
            transfer needs and outs.
    """
    found = {}
    with Repo(str(root)) as repo:
        graph = repo.index.graph
        for stage in graph:
            if isinstance(stage, PipelineStage) and _side(stage) == "provider":
                found[stage.addressing] = _needs(stage, list(graph.successors(stage)))
        try:
            repo.cloud.get_remote()
        except DvcException as error:
            raise RaptError(_of_dvc(error)) from error
    return found


def _busy(error: LockError) -> str:
    """Name the processes that DVC's record names, if it was the record that stopped this one."""
    pids = ", ".join(re.findall(r"\(PID (\d+)\)", str(error)))
    by, killed = (f" (pid {pids})", FORGET) if pids else ("", "")
    return (
        f"dvc: got another DVC command at work in this folder{by}, expected none. Wait for its "
        f"end, or stop it.{killed}"
    )


def _of_dvc(error: DvcException) -> str:
    """Format an error of DVC as one line."""
    said = " ".join(str(error).split())
    killed = FORGET if "RWLock-file" in said else ""
    return f"dvc: got an error, expected none. Its message: {said}{killed}"


def _on_cpu(stage: PipelineStage, tuners: Mapping[str, Any]) -> bool:
    """Whether a stage's tuner, by its parameters, computes on the CPU alone."""
    keys = [f"tuners.{name}" for name, how in tuners.items() if how in ("tfidf", {"type": "tfidf"})]
    return any(key in keys for dep in stage.deps for key in getattr(dep, "params", ()))


def _side(stage: PipelineStage) -> str:
    side = (stage.meta or {}).get("side", "user")
    if side not in SIDES:
        raise RaptError(not_allowed(f"dvc.yaml: {stage.addressing}: meta.side", side, SIDES))
    return str(side)


def _needs(stage: PipelineStage, upstream: list[PipelineStage]) -> Needs:
    needs: Needs = {}
    deps = [Path(dep.fs_path) for dep in stage.deps]
    for other in upstream:
        for out in other.outs:
            path = Path(out.fs_path)
            if not any(path == dep or dep in path.parents or path in dep.parents for dep in deps):
                continue
            if not out.can_push:
                raise RaptError(
                    f"{stage.addressing}: got {out.def_path}, which is `push: false`, for the "
                    "provider's side, expected what may leave this machine."
                )
            needs.setdefault(other.addressing, []).append(out.def_path)
    return needs
