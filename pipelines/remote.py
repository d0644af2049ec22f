"""Reproduce the DVC graph on several machines: `rapt flow --pool provider`.

The provider's stages (`meta: {side: provider}` in dvc.yaml) run on the workers of a Prefect work
pool (see pipelines.worker), all others here, in slots. Git carries the snapshot to the workers.
DVC's remote carries the outs that a provider's stage needs or makes. Outs with `push: false` and
unprotected releases stay here. The results are the same bytes as those of `dvc repro` alone.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelling, Crashed
from ruamel.yaml import YAML

from pipelines import dvc_api, graph
from pipelines.checkout import git, tree, worktree
from pipelines.heartbeat import Heartbeat
from pipelines.progress import console
from pipelines.schedule import Lease
from pipelines.served import CommandError, Served
from pipelines.server import no_answer
from pipelines.slots import Slots, Stays, Stopped
from pipelines.worker import PAUSES, patiently
from rapt import params, paths
from rapt.data.config import FilesSource
from rapt.measures.statement import UNPROTECTED
from rapt.utils import files
from rapt.utils.errors import RaptError

T = TypeVar("T")
Lock = dict[str, dict[str, Any]]
AHEAD = 32  # stages that run or wait on the pool at a time
SECONDS_BETWEEN_LOOKS = 1.0
WARNING = (
    "the pool gets params.yaml with its seed, by which noise can be replayed: for public text, or "
    "machines of your own (docs/scaling.md)"
)


class Desk:
    """A worktree of the snapshot through which outs go to DVC's remote and come back from it."""

    def __init__(self, slots: Slots, needs: dict[str, graph.Needs]) -> None:
        """Lay it out beside the slots, which are cleared together with it."""
        root, cache = slots.root, slots.cache
        self._needs = needs
        self._sent: dict[str, Lock | None] = {}
        self._guard = threading.Lock()
        self._path = worktree(root, root / paths.STATE / "slots/desk", slots.commit, cache)
        # Without a shell nothing runs here that the cache lacks.
        variables = {"RAPT_HOME": str(root), "SHELL": shutil.which("false") or "false"}
        self._dvc = Served(self._path, root / paths.LOGS, variables)
        self._slots = slots
        slots.also.append(self._dvc)
        self.close = self._dvc.kill
        if (own := root / ".dvc/config.local").exists():  # the remote's credentials may be there
            shutil.copy(own, self._path / ".dvc/config.local")
            relative = os.path.relpath(cache, (self._path / ".dvc").resolve())
            self._dvc.run("desk", "config", "--local", "cache.dir", relative)

    def send(self, stage: str) -> Lock | None:
        """Push what a stage needs.

        Returns:
            the entries of dvc.lock with these outs alone; None where one of them is unprotected.
        """
        needs = self._needs[stage]
        key = repr(needs)  # the cells of a release need the same
        with self._guard:
            if key not in self._sent:
                self._sent[key] = self._send(stage, needs)
            return self._sent[key]

    def fetch(self, stage: str) -> bool:
        """Bring what a stage made into the cache here; False where nobody has made it yet."""
        try:
            with self._guard:
                self._run(stage, "bring", stage)
        except CommandError as error:
            if error.code == dvc_api.NOTHING:
                return False
            raise
        return True

    def _send(self, stage: str, needs: graph.Needs) -> Lock | None:
        if not needs:
            return {}
        self._run(stage, "repro", "-q", *needs)
        if self._is_bare(stage):
            return None
        paths = [path for outs in needs.values() for path in outs]
        self._run(stage, "give", *paths)
        entries = YAML(typ="safe").load(self._path / "dvc.lock")["stages"]
        return {
            name: {
                "cmd": entries[name]["cmd"],
                "outs": [out for out in entries[name]["outs"] if out["path"] in outs],
            }
            for name, outs in needs.items()
        }

    def _run(self, stage: str, step: str, *arguments: str) -> None:
        with self._slots.unless_stopped():
            self._dvc.wake()
        self._dvc.run(f"{stage}.{step}", step, *arguments)

    def _is_bare(self, stage: str) -> bool:
        """Whether a stage takes text that nothing protects, or what was made of such."""
        needs = self._needs.get(stage, {})
        releases = [self._path / path for outs in needs.values() for path in outs]
        statements = filter(Path.exists, (paths.statement(release) for release in releases))
        bare = (files.read_json(path)["protection"] == UNPROTECTED for path in statements)
        return any(bare) or any(map(self._is_bare, needs))


class Sides(Slots):
    """Slots beside a work pool: the provider's stages run on the pool, all others here."""

    def __init__(
        self, root: Path, count: int, pool: str, experiment: params.Params, repository: str | None
    ) -> None:
        """Look for what `pool`, a work pool and its deployment, needs.

        Its workers fetch the snapshot from `repository`, else from that of `origin`.
        """
        super().__init__(root, count)
        self.ahead = AHEAD
        self._needs = graph.provider_side(root)
        refuse_tracked_text(root, experiment)
        self._repository = _address(root, repository)
        _look(pool)
        self._deployment = f"stage/{pool}"
        self._finishing = threading.Event()
        console.print(WARNING)

    def __enter__(self) -> Self:
        """Create the slots, and publish the snapshot for the workers."""
        super().__enter__()
        with ExitStack() as stack:
            stack.callback(self.close)
            self._desk = Desk(self, self._needs)
            self._open.callback(self._desk.close)
            self._own = self._open.enter_context(
                published(self.root, self.commit, self._repository)
            )
            stack.pop_all()
        return self

    def reproduce(self, lease: Lease) -> float | None:
        """Reproduce a stage, unless its outs exist already; then they are in the cache here.

        Raises:
            Stays: it was leased to the pool, and takes text that nothing protects.
        """
        if not lease.elsewhere:
            return super().reproduce(lease)
        stage = lease.stage.name
        lock = self._patiently(lambda: self._desk.send(stage))
        if lock is None:
            raise Stays
        if self._patiently(lambda: self._desk.fetch(stage)):
            return None
        seconds = self._run(stage, lock)
        self._patiently(lambda: self._bring(stage))
        return seconds

    def finish(self) -> None:
        """Start nothing more: a run that no worker has begun is cancelled."""
        self._finishing.set()

    def _bring(self, stage: str) -> None:
        if not self._desk.fetch(stage):
            raise RaptError(
                f"{stage}: got none of its outs from the remote, expected all, as it has run. "
                "Check that its worker has the same remote. If an object there is damaged, take a "
                "new one: dvc remote modify REMOTE url ADDRESS"
            )

    def _run(self, stage: str, lock: Lock) -> float:
        """Have the pool run a stage, again where its process died; return the seconds it ran."""
        parameters: dict[str, Any] = {"stage": stage, "lock": lock}
        parameters |= {"repository": self._repository, "commit": self._own}
        pauses = list(PAUSES[:2])
        while True:
            self._pause(0)  # which raises if the flow has stopped meanwhile
            if self._finishing.is_set():
                raise Stopped
            begin = partial(  # a second attempt finds the run of a first whose answer was lost
                run_deployment,
                self._deployment,
                parameters=parameters,
                tags=[_tag(self._own)],
                timeout=0,
                idempotency_key=str(uuid.uuid4()),
            )
            begun = self._patiently(begin)
            assert isinstance(begun, FlowRun)
            run, state = self._ended(begun)
            if state.is_completed():
                return run.total_run_time.total_seconds()
            if not state.is_crashed() or not pauses:
                said = " ".join((state.message or state.name or "").split())
                raise RaptError(f"{stage}: got a failed run, expected one that succeeds. {said}")
            self._pause(pauses.pop(0))

    def _ended(self, run: FlowRun) -> tuple[FlowRun, State[Any]]:
        """Wait for the end of a run, of which nothing may be heard any more."""
        heartbeat = Heartbeat()
        with get_client(sync_client=True) as client:
            while True:
                run = self._patiently(partial(client.read_flow_run, run.id))
                if run.state and run.state.is_final():
                    return run, run.state
                if self._finishing.is_set() and run.state and run.state.is_scheduled():
                    client.set_flow_run_state(run.id, Cancelling())
                    raise Stopped
                if heartbeat.lost(run):
                    # If it lives on, it does no harm: it writes to a folder of its own and names
                    # what it pushes by its content. The entry of the run-cache comes last.
                    client.set_flow_run_state(run.id, Crashed(message="no sign of life"))
                self._pause(SECONDS_BETWEEN_LOOKS)

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, self._pause)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise Stopped


@contextmanager
def published(root: Path, commit: str, repository: str) -> Iterator[str]:
    """Hold a snapshot's files for the workers, in a ref of the repository that they fetch from.

    Yields:
        a commit of these files without history, which no other flow has; its body names theirs.
    """
    record = root / paths.STATE / "published.json"
    if record.exists():  # by a flow that was killed
        _retract(root, **files.read_json(record))
    own = git(root, "commit-tree", tree(root, commit), "-m", f"rapt {uuid.uuid4()}", "-m", commit)
    where = {"repository": repository, "commit": own}
    files.write_json(record, where)
    git(root, "push", "--quiet", repository, f"{own}:refs/rapt/{own}")
    try:
        yield own
    finally:
        _retract(root, **where)
        record.unlink()


def _retract(root: Path, repository: str, commit: str) -> None:
    """Cancel what a flow left on the pool, and remove its ref."""
    unfinished = FlowRunFilter.model_validate(
        {
            "tags": {"all_": [_tag(commit)]},
            "state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}},
        }
    )
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=unfinished):
            client.set_flow_run_state(run.id, Cancelling())
    with suppress(RaptError):  # the repository is away: a ref too many does no harm
        git(root, "push", "--quiet", repository, f":refs/rapt/{commit}")


def refuse_tracked_text(root: Path, experiment: params.Params) -> None:
    """See that git tracks no task's own files, as the workers fetch what it tracks."""
    for name, task in experiment.tasks.items():
        if isinstance(task.source, FilesSource):
            for given in chain.from_iterable(map(task.source.parts, task.source.files)):
                path = (root / given).resolve()
                if path.is_relative_to(root) and git(root, "ls-files", "--", f":(literal){path}"):
                    raise RaptError(
                        f"tasks.{name}.source.files: got {given}, expected a file that git "
                        "ignores: the pool gets what git tracks. Ignore it, then: git rm --cached "
                        f"{given}"
                    )


def _address(root: Path, given: str | None) -> str:
    address = given or git(root, "remote", "get-url", "origin", check=False)
    if not address:
        raise RaptError(
            "repository: got none, expected one that the workers can fetch from. Give it with "
            "--repository."
        )
    if urlsplit(address).password:  # it would stand in every run's parameters
        raise RaptError(
            "repository: got one with a password, expected one without. Use git's credential "
            "helpers."
        )
    return address


def _look(pool: str) -> None:
    """See whether the server has the pool's deployment, and any worker for it."""
    if not PREFECT_API_URL.value():
        raise RaptError(
            "PREFECT_API_URL: got none, expected the server that the workers use. "
            "Try: export PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    with get_client(sync_client=True) as client:
        try:
            client.read_deployment_by_name(f"stage/{pool}")
            workers = client.read_workers_for_work_pool(pool)
        except ObjectNotFound:
            raise RaptError(
                f"pool: got {pool!r}, expected one with a deployment. Try: prefect deploy --all"
            ) from None
        except httpx.HTTPError:
            raise RaptError(no_answer()) from None
    if not any(worker.status == "ONLINE" for worker in workers):
        console.print(f"warning: no worker serves {pool!r}: prefect worker start --pool {pool}")


def _tag(commit: str) -> str:
    return f"rapt {commit}"
