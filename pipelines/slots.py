"""Slots: git worktrees of one snapshot that share DVC's cache, so that stages run side by side.

One workspace cannot run two stages at once: DVC's lock gives up after seconds, and a file edited
while a stage runs would be recorded as the version that made its outs. A slot has its own lock
and its own, unchanging files; what it makes reaches the others through the cache.
"""

from __future__ import annotations

import fcntl
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path
from typing import Self

from pipelines import before, graph
from pipelines.cache import forget_lost, remove_damaged
from pipelines.checkout import DVC, PATH, forget_others, git, worktree
from pipelines.schedule import Lease
from rapt import process
from rapt.errors import RaptError

# `git stash create` and `ls-files --others` see nothing of these: a slot would miss them.
CODE = ("stages", "pipelines", "rapt", "dvc.yaml", "params.yaml")
LINES_SHOWN = 20
HALFWAY = (
    "interrupted while collecting: dvc.lock and what else git tracks are as before, other outs may "
    "be new already; start again to go on, or go back by `dvc checkout`"
)
# What DVC prints of a stage whose outs it has from an earlier run.
RESTORED = "is cached - skipping run"
# A stage that was killed, by the kernel where memory was short, too little memory on a GPU, and
# a lock of DVC's that somebody held for longer than DVC waits.
MAY_PASS = re.compile(
    r"exited with (-9|-15|137|143)\b|out of memory|Unable to acquire lock"
    # PyTorch's, Python's and NumPy's words for too little memory of the machine.
    r"|can't allocate memory|\bMemoryError\b|Unable to allocate"
)
# Seconds before a stage is started again, if what broke it may pass.
BACKOFF = (2, 10)


class Stopped(RaptError):
    """A command that the flow itself broke off, or did not start."""


class CommandError(RaptError):
    """A command that ended with an error, and the log that says why.

    Its text goes to Prefect's server, which may be another machine; the log stays here.
    """

    def __init__(self, name: str, code: int, log: Path) -> None:
        """Say that the command called `name` ended with exit code `code`."""
        super().__init__(f"{name}: exit {code}")
        self.code, self.log = code, log

    def tail(self) -> str:
        """The last lines of the log; of a progress bar, its last state."""
        text = self.log.read_text(errors="replace")
        lines = [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
        return "\n".join([line for line in lines if line.strip()][-LINES_SHOWN:])

    @property
    def may_pass(self) -> bool:
        """Whether it may succeed when it is started again, with nothing changed."""
        return self.code < 0 or MAY_PASS.search(self.tail()) is not None


class Slots:
    """The slots of one flow, between `with` and its end; nothing that they run outlives that."""

    def __init__(self, root: Path, count: int) -> None:
        """Prepare for `count` slots of the project at `root`."""
        self.root = root
        self.count = count
        self.cache = graph.cache_dir(root)
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._open = ExitStack()
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        # Objects of DVC's cache that were not what their names say: removed, made again.
        self.damaged = 0

    def __enter__(self) -> Self:
        """Take the snapshot and lay the slots out, those of a crashed flow reclaimed."""
        with ExitStack() as stack:
            stack.enter_context(_only_one(self.root))
            self.commit = snapshot(self.root)
            self._clear()
            stack.callback(self._clear)
            # Before the slots are laid out: what is removed leaves their dvc.lock.
            self.damaged = remove_damaged(self.cache, self.root / ".rapt/cache.json")
            for number in range(self.count):
                path = self._folder / str(number)
                worktree(self.root, path, self.commit, self.cache)
                self._free.put(path)
            stack.callback(self.stop)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs, then remove the slots."""
        self._open.close()

    def reproduce(self, lease: Lease) -> float | None:
        """Reproduce a stage in a free slot; what is upstream of it comes from the cache.

        Of this machine's GPUs it sees that of the lease, or none.

        Returns:
            the seconds that it ran; None: it came from the cache.

        Raises:
            CommandError: the stage failed.
        """
        stage, slot = lease.stage.name, self._free.get()
        started = time.monotonic()
        try:
            environment = _environment(self.root, slot, self.count, lease.gpu)
            forget_others(slot)
            log = self._run(stage, [stage], slot, environment)
        finally:
            self._free.put(slot)
        if RESTORED in log.read_text(errors="replace"):
            return None
        return time.monotonic() - started

    def assemble(self) -> None:
        """Reproduce everything in the main workspace: the only writer of dvc.lock.

        Raises:
            CommandError: a stage failed.
            RaptError: files are no longer those of the snapshot, or the flow is stopping.
        """
        if changed := [*_edited(self.root, self.commit), *_untracked(self.root)]:
            raise RaptError(
                f"changed while the flow ran: {_listed(changed)}; what ran is in the cache, and "
                "nothing else was touched: start again"
            )
        with before.kept(self.root, ["dvc.lock", *graph.uncached(self.root)]):
            forget_lost(self.root / "dvc.lock", self.cache)
            try:
                self._run("dvc repro", [], self.root, {})
            except Stopped:
                raise Stopped(HALFWAY) from None
            if changed := [*_edited(self.root, self.commit, *CODE), *_untracked(self.root)]:
                raise RaptError(
                    f"changed while the flow collected: {_listed(changed)}; dvc.lock is as it was, "
                    "what ran is in the cache: start again"
                )

    def finish(self) -> None:
        """Nothing waits here: what was leased runs."""

    def stop(self) -> None:
        """Kill everything that runs, and start nothing more."""
        with self._guard:
            self._stopped = True
            for running in self._running:
                with suppress(ProcessLookupError):  # it has just ended
                    os.killpg(running.pid, signal.SIGKILL)

    @property
    def _folder(self) -> Path:
        return self.root / ".rapt/slots"

    def _clear(self) -> None:
        for path in self._folder.glob("*"):
            shutil.rmtree(path)
            # Forgets the folder; twice forced, as one whose making was broken off is locked.
            git(self.root, "worktree", "remove", "--force", "--force", str(path), check=False)

    def _run(self, name: str, target: list[str], cwd: Path, environment: dict[str, str]) -> Path:
        log = self.root / ".rapt/logs" / f"{name.replace('/', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            with self._guard:
                if self._stopped:
                    raise Stopped(f"{name}: not started")
                running = subprocess.Popen(
                    process.tethered(*DVC, "repro", *target),
                    cwd=cwd,
                    env=os.environ | PATH | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal reaches the flow alone
                )
                self._running.add(running)
            code = running.wait()
            with self._guard:
                self._running.discard(running)
        if self._stopped:
            raise Stopped(f"{name}: stopped")
        if code:
            raise CommandError(name, code, log)
        return log


def snapshot(root: Path) -> str:
    """A commit with the workspace's tracked files as they are now, edits included.

    Raises:
        RaptError: code lies there that git neither tracks nor ignores.
    """
    if others := _untracked(root):
        raise RaptError(
            f"untracked files given: {_listed(others)}; allowed: tracked (git add) or ignored"
        )
    # Else `stash create` fails without a word where a file was edited and is as before again.
    git(root, "update-index", "-q", "--refresh", check=False)
    return git(root, "stash", "create") or git(root, "rev-parse", "HEAD")


def _untracked(root: Path) -> list[str]:
    """Code that git neither tracks nor ignores."""
    return git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines()


def _edited(root: Path, commit: str, *paths: str) -> list[str]:
    """Tracked files, of these paths if some are given, that are not as in the snapshot."""
    return git(root, "diff", "--name-only", commit, "--", *paths).splitlines()


def _only_one(root: Path) -> ExitStack:
    """Hold the flow's lock, which the kernel lets go of when this process dies."""
    path = root / ".rapt/flow.lock"
    path.parent.mkdir(exist_ok=True)
    stack = ExitStack()
    file = stack.enter_context(path.open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stack.close()
        raise RaptError("a second flow given, allowed: one at a time in a workspace") from None
    return stack


def _environment(root: Path, slot: Path, count: int, gpu: str | None) -> dict[str, str]:
    share = str(max(1, process.cores() // count))
    return {
        "RAPT_HOME": str(root),
        "RAPT_WORKERS": share,
        "OMP_NUM_THREADS": share,
        "PYTHONHASHSEED": "0",
        # The snapshot's stages and rapt, before an editable install of the main workspace.
        "PYTHONPATH": os.pathsep.join([str(slot), *_inherited("PYTHONPATH")]),
        # Of a machine's GPUs the leased one alone, or none.
        "CUDA_VISIBLE_DEVICES": gpu or "",
    }


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def recover(root: Path) -> None:
    """Take back what a flow that was killed while it collected may have left half-written.

    Raises:
        RaptError: another flow runs.
    """
    with _only_one(root):
        before.give_back(root)


def _inherited(variable: str) -> list[str]:
    # An empty entry would stand for the working folder.
    return [value] if (value := os.environ.get(variable)) else []


def gpus() -> list[str]:
    """The ids of the GPUs that may be used: CUDA_VISIBLE_DEVICES, else all that the driver has."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        named = [device.strip() for device in visible.split(",") if device.strip()]
        # As CUDA reads it: one that does not exist ends the list.
        return list(takewhile(lambda device: device != "-1", named))
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.split()  # without a driver it prints excuses
