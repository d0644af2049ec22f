"""Slots: git worktrees of one snapshot that share DVC's cache, so that stages run side by side.

One workspace cannot run two stages at once, as DVC waits only seconds for its lock. And if a file
is edited while a stage runs, DVC records the new version as the one that made the outs. A slot has
its own lock and its own files, which do not change. Its outs reach the other slots through the
cache.
"""

from __future__ import annotations

import fcntl
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Self

from pipelines import graph
from pipelines.cache import remove_damaged
from pipelines.checkout import environment, forget_others, git, head, worktree
from pipelines.schedule import Lease
from pipelines.served import CommandError, Served
from rapt import paths
from rapt.utils import files, process
from rapt.utils.device import VISIBLE, has_gpu, is_apple
from rapt.utils.errors import RaptError

# The paths of code: a snapshot leaves out untracked files, and a slot would lack them.
CODE = ("stages", "pipelines", "rapt", "dvc.yaml", "params.yaml")
MANY = 8  # stages upstream, from which on it pays to gather what other slots made of them
INTERRUPTED = "interrupted: what is finished stays in the cache; start again to go on"
# DVC's lines for a stage that does not run: its outs are of an earlier run, or still there.
SKIPPED = ("Stage '{}' is cached - skipping run", "Stage '{}' didn't change, skipping")
# How the drivers list GPUs, and their ids in that. HIP counts them as ROCm does.
DRIVERS = (
    (("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"), r"^\S+"),
    (("rocm-smi", "--showid", "--csv"), r"^card(\d+)"),
)
ON_WSL = "/usr/lib/wsl/lib"  # where nvidia-smi lies there
# Seconds before each retry of a stage whose failure may not recur.
BACKOFF = (2, 10)


class Stopped(RaptError):
    """The flow was stopped, did not start a stage, or could not finish as stages failed."""

    def __init__(self, why: str = INTERRUPTED) -> None:
        """Say why."""
        super().__init__(why)


class Stays(Exception):
    """The stage's inputs turned out not to be allowed to leave this machine."""


class Slots:
    """The slots of one flow, as a context manager: no process of theirs outlives it."""

    def __init__(self, root: Path, count: int) -> None:
        """Prepare for `count` slots of the project at `root`."""
        self.root = root
        self.count = count
        # How many stages may run on other machines beside these.
        self.ahead = 0
        self.cache = graph.cache_dir(root)
        self._slots: list[Served] = []
        self.also: list[Served] = []  # what else `stop` kills
        self._filled: set[Served] = set()  # those that have what was made before this flow
        self._free: queue.SimpleQueue[Served] = queue.SimpleQueue()
        self._open = ExitStack()
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        # Number of damaged objects removed from DVC's cache; they are made again.
        self.damaged = 0

    def __enter__(self) -> Self:
        """Take the snapshot, remove a crashed flow's slots and create new ones."""
        with ExitStack() as stack:
            stack.enter_context(only_one(self.root))
            self.commit = snapshot(self.root)
            self._clear()
            stack.callback(self._clear)
            # Before the slots are created, whose dvc.lock then leaves out removed objects.
            self.damaged = remove_damaged(self.cache, self.root / paths.STATE / "cache.json")
            stack.callback(self.stop)
            for number in range(self.count):
                self._free.put(self._worktree(str(number)))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs, then remove the slots, unless already closed."""
        self.close()

    def close(self) -> None:
        """Kill what still runs, then remove the slots; a second call does nothing."""
        self._open.close()

    def reproduce(self, lease: Lease) -> float | None:
        """Reproduce a stage in a free slot; its inputs come from the cache.

        Returns:
            the seconds that it ran; None: it came from the cache.
        """
        stage, slot = lease.stage.name, self._free.get()
        started = time.monotonic()
        try:
            with self.unless_stopped():
                slot.wake()
            forget_others(slot.path)
            if len(lease.stage.upstream) > MANY:
                self._gather(slot, stage)
            elif slot not in self._filled:
                self._check_out(slot, stage)
            self._filled.add(slot)
            log = self._dvc(slot, stage, "repro", stage, **_seen(lease, self.count))
        finally:
            self._free.put(slot)
        told = log.read_text(errors="replace")
        if any(line.format(stage) in told for line in SKIPPED):
            return None
        return time.monotonic() - started

    def assemble(self) -> None:
        """Reproduce everything in one more slot, then take over what it wrote, dvc.lock too."""
        slot = self._worktree("all")
        self._gather(slot, "all")
        self._dvc(slot, "dvc repro", "repro")
        # They are no edits: DVC removes a stage's outs before the stage sees that a flow runs.
        outs = graph.uncached(self.root)
        edited = git(self.root, "diff", "--relative", "--name-only", self.commit).splitlines()
        if changed := [name for name in edited if name not in outs] + _untracked(self.root):
            raise RaptError(
                f"workspace: got changes while the flow ran ({_listed(changed)}), expected none. "
                "What ran is in the cache, nothing else was touched. Start again."
            )
        for name in [*outs, "dvc.lock"]:
            with files.atomic(self.root / name) as scratch:
                shutil.copyfile(slot.path / name, scratch)
        main = self._slot(self.root, {})
        self._dvc(main, "dvc checkout", "checkout", "--quiet", "--force", "dvc.yaml")

    def _gather(self, slot: Served, stage: str) -> None:
        """Take over what other slots have made, and earlier flows, on behalf of a stage.

        `dvc repro` alone would read and write all of dvc.lock, half a second and more, for each
        stage whose entry is missing, or whose outs are.
        """
        others = [other.path for other in self._slots if other is not slot]
        locks = [str(path / "dvc.lock") for path in (self.root, *others)]
        self._dvc(slot, f"{stage}.gather", "gather", *locks)
        self._check_out(slot, stage)

    def _check_out(self, slot: Served, stage: str) -> None:
        """Link what the slot's dvc.lock has: without a look at those that others are writing."""
        with suppress(CommandError):  # an entry is old and its outs are gone
            self._dvc(slot, f"{stage}.checkout", "checkout", "--quiet")

    def finish(self) -> None:
        """Do nothing: every leased stage already runs."""

    def stop(self) -> None:
        """Kill everything that runs, and start nothing more."""
        with self._guard:
            self._stopped.set()
            for slot in (*self._slots, *self.also):
                slot.kill()

    @property
    def _folder(self) -> Path:
        return self.root / paths.STATE / "slots"

    def _clear(self) -> None:
        for path in self._folder.glob("*"):
            shutil.rmtree(path)
            # Forced twice: a worktree whose creation was interrupted is locked.
            git(self.root, "worktree", "remove", "--force", "--force", str(path), check=False)

    def _worktree(self, name: str) -> Served:
        """Create a slot on a worktree of the snapshot."""
        project = worktree(self.root, self._folder / name, self.commit, self.cache)
        return self._slot(project, environment(project, self.root))

    def _slot(self, path: Path, variables: dict[str, str]) -> Served:
        with self.unless_stopped():
            slot = Served(path, self.root / paths.LOGS, variables | _seen(None, self.count))
            self._slots.append(slot)
        return slot

    def _dvc(self, slot: Served, name: str, *arguments: str, **environment: str) -> Path:
        """Run DVC in a slot on behalf of `name`; return its log.

        Raises:
            CommandError: it failed.
            Stopped: the flow has stopped meanwhile.
        """
        try:
            return slot.run(name, *arguments, **environment)
        finally:
            if self._stopped.is_set():
                raise Stopped

    @contextmanager
    def unless_stopped(self) -> Iterator[None]:
        """Guard the start of a process, so that `stop` finds it; raise if already stopped."""
        with self._guard:
            if self._stopped.is_set():
                raise Stopped
            yield


def snapshot(root: Path) -> str:
    """Return a commit of the workspace's tracked files as they are now, edits included."""
    if others := _untracked(root):
        raise RaptError(
            f"{_listed(others)}: got untracked code, expected what git tracks or ignores. "
            "Next: git add it; or run dvc repro, which takes it as it is, one stage at a time."
        )
    # Otherwise `stash create` fails silently where a file was edited and restored.
    git(root, "update-index", "-q", "--refresh", check=False)
    commit = head(root)
    return git(root, "stash", "create") or commit


def _untracked(root: Path) -> list[str]:
    """List the code that git neither tracks nor ignores."""
    return git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines()


@contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Hold the flow's lock, which the kernel releases when this process dies."""
    path = root / paths.FLOW_LOCK
    path.parent.mkdir(exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _is_shared(path):
                raise RaptError(
                    f"{path}: got a stage that dvc repro runs in this workspace, expected none "
                    "beside a flow: both would work on the same cells. Wait for dvc repro, or "
                    "stop it by Ctrl-C."
                ) from None
            since = time.strftime("%H:%M", time.localtime(path.stat().st_mtime))
            raise RaptError(
                f"Another flow is already running in this workspace (pid {path.read_text()}, since "
                f"{since}). Wait for it, or stop it by Ctrl-C."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _is_shared(lock: Path) -> bool:
    """Whether stages hold the lock, not a flow."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _seen(lease: Lease | None, count: int) -> dict[str, str]:
    """Return what a stage sees, as variables: its part of the cores, and one GPU or none."""
    cores = str(max(1, process.cores() // count))
    gpu = lease and lease.gpu
    return {
        "OMP_NUM_THREADS": cores,
        # Unless the user decides: on a GPU its memory, else the cores.
        "RAPT_WORKERS": os.environ.get("RAPT_WORKERS") or ("" if gpu else cores),
        # A number of the user's RAPT_DEVICE is not that of the one GPU that is seen.
        "RAPT_DEVICE": os.environ.get("RAPT_DEVICE", "").partition(":")[0] if gpu else "cpu",
        "CUDA_VISIBLE_DEVICES": gpu or "",
        "HIP_VISIBLE_DEVICES": gpu or "",
        "RAPT_CARDS": "1",
        "RAPT_PER_GPU": str(lease.sharing if lease else 1),
    }


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def gpus() -> list[str]:
    """Return the ids of usable GPUs: those that the environment names, else the driver's.

    Apple's has no id and no driver, but one stage at a time computes on it, too.
    """
    wanted, _, number = os.environ.get("RAPT_DEVICE", "").partition(":")
    if is_apple():
        return ["mps"] if has_gpu() else []
    if wanted == "cpu":
        return []
    found = _visible()
    return found[int(number) :][:1] if number.isdecimal() else found


def _visible() -> list[str]:
    """Return the ids by which CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES choose GPUs."""
    for name in VISIBLE:
        if (visible := os.environ.get(name)) is not None:
            named = [device.strip() for device in visible.split(",") if device.strip()]
            # As in CUDA, the invalid id -1 ends the list.
            named = list(takewhile(lambda device: device != "-1", named))
            # What ROCR_VISIBLE_DEVICES leaves, HIP counts anew.
            return [str(n) for n, _ in enumerate(named)] if name.startswith("ROCR") else named
    for command, line in DRIVERS:
        if program := shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:{ON_WSL}"):
            done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
            if not done.returncode:  # without a driver it prints an error
                return re.findall(line, done.stdout, re.MULTILINE)
    return []
