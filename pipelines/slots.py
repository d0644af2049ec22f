"""Slots: git worktrees of one snapshot that share DVC's cache, so that stages run side by side.

One workspace cannot run two stages at once: DVC's lock gives up after seconds, and a file edited
while a stage runs would be recorded as the version that made its outs. A slot has its own lock
and its own, unchanging files; what it makes reaches the others through the cache.
"""

from __future__ import annotations

import fcntl
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pipelines import graph
from rapt import process
from rapt.errors import RaptError

DVC = (sys.executable, "-m", "dvc")
# The stages' commands say `python`: the one that runs this.
_PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
# `git stash create` and `ls-files --others` see nothing of these: a slot would miss them.
CODE = ("stages", "pipelines", "rapt", "dvc.yaml", "params.yaml")
LINES_SHOWN = 20


class CommandError(RaptError):
    """A command that ended with an error, and the log that says why.

    Its text goes to Prefect's server, which may be another machine; the log stays here.
    """

    def __init__(self, name: str, code: int, log: Path) -> None:
        """Say that the command called `name` ended with exit code `code`."""
        super().__init__(f"{name}: exit {code}")
        self.log = log

    def tail(self) -> str:
        """The last lines of the log; of a progress bar, its last state."""
        text = self.log.read_text(errors="replace")
        lines = [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
        return "\n".join([line for line in lines if line.strip()][-LINES_SHOWN:])


@dataclass(frozen=True)
class Slot:
    """A worktree and what the processes in it find in their environment."""

    path: Path
    environment: dict[str, str]


class Slots:
    """The slots of one flow, between `with` and its end; nothing that they run outlives that."""

    def __init__(self, root: Path, count: int) -> None:
        """Prepare for `count` slots of the project at `root`."""
        self.root = root
        self.count = count
        self._free: queue.Queue[Slot] = queue.Queue()
        self._open = ExitStack()
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __enter__(self) -> Self:
        """Take the snapshot and lay the slots out, those of a crashed flow reclaimed."""
        with ExitStack() as stack:
            stack.enter_context(_only_one(self.root))
            commit = snapshot(self.root)
            cache = graph.cache_dir(self.root)
            self._clear()
            stack.callback(self._clear)
            for number in range(self.count):
                path = self._folder / str(number)
                _worktree(self.root, path, commit, cache)
                self._free.put(Slot(path, _environment(self.root, path, number, self.count)))
            stack.callback(self.stop)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs, then remove the slots."""
        self._open.close()

    def reproduce(self, stage: str) -> None:
        """Reproduce a stage in a free slot; what is upstream of it comes from the cache.

        Raises:
            CommandError: the stage failed.
        """
        slot = self._free.get()
        try:
            self._run(stage, ["-q", stage], slot.path, slot.environment)
        finally:
            self._free.put(slot)

    def assemble(self) -> None:
        """Reproduce everything in the main workspace: the only writer of dvc.lock."""
        self._run("dvc repro", ["-q"], self.root, {})

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
            _git(self.root, "worktree", "remove", "--force", "--force", str(path), check=False)

    def _run(self, name: str, target: list[str], cwd: Path, environment: dict[str, str]) -> None:
        log = self.root / ".rapt/logs" / f"{name.replace('/', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            with self._guard:
                if self._stopped:
                    raise RaptError(f"{name}: not started, the flow is stopping")
                running = subprocess.Popen(
                    [*process.TETHER, *DVC, "repro", *target],
                    cwd=cwd,
                    env=os.environ | _PATH | environment,
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
            raise RaptError(f"{name}: stopped")
        if code:
            raise CommandError(name, code, log)


def snapshot(root: Path) -> str:
    """A commit with the workspace's tracked files as they are now, edits included.

    Raises:
        RaptError: code lies there that git neither tracks nor ignores.
    """
    others = _git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines()
    if others:
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        raise RaptError(f"untracked files given: {shown}; allowed: tracked (git add) or ignored")
    return _git(root, "stash", "create") or _git(root, "rev-parse", "HEAD")


_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "rapt"), ("EMAIL", "rapt@localhost"))
}


def _git(root: Path, *arguments: str, check: bool = True) -> str:
    # Without hooks: `dvc install` sets one that checks everything out into a new worktree.
    done = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
        cwd=root,
        env=os.environ | _IDENTITY,
        capture_output=True,
        text=True,
    )
    if check and done.returncode:
        raise RaptError(f"git {arguments[0]}: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


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


def _worktree(root: Path, path: Path, commit: str, cache: Path) -> None:
    _git(root, "worktree", "add", "--detach", "--force", "--force", str(path), commit)
    # Links save copies; DVC removes a stage's outs before it runs, so none is written through.
    local = f"[cache]\n    dir = {cache}\n    type = reflink,hardlink,copy\n"
    (path / ".dvc/config.local").write_text(local)


def _environment(root: Path, path: Path, number: int, count: int) -> dict[str, str]:
    share = str(max(1, process.cores() // count))
    environment = {
        "RAPT_HOME": str(root),
        "RAPT_WORKERS": share,
        "OMP_NUM_THREADS": share,
        "PYTHONHASHSEED": "0",
        # The snapshot's stages and rapt, before an editable install of the main workspace.
        "PYTHONPATH": os.pathsep.join([str(path), *_inherited("PYTHONPATH")]),
    }
    if devices := gpus():
        environment["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    return environment


def _inherited(variable: str) -> list[str]:
    # An empty entry would stand for the working folder.
    return [value] if (value := os.environ.get(variable)) else []


def gpus() -> list[str]:
    """The ids of the GPUs that may be used: CUDA_VISIBLE_DEVICES, else all that the driver has."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [device.strip() for device in visible.split(",") if device.strip()]
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.split()  # without a driver it prints excuses
