"""Slots: git worktrees of one snapshot that share DVC's cache, so that stages run side by side.

One workspace cannot run two stages at once, as DVC waits only seconds for its lock. And if a file
is edited while a stage runs, DVC records the new version as the one that made the outs. A slot has
its own lock and its own files, which do not change. Its outs reach the other slots through the
cache.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Self

from pipelines import dvc_api, graph, rollback
from pipelines.cache import forget_lost, remove_damaged
from pipelines.checkout import DVC, PATH, environment, forget_others, git, worktree
from pipelines.schedule import Lease
from rapt.utils import process
from rapt.utils.errors import RaptError

# The paths of code: a snapshot leaves out untracked files, and a slot would lack them.
CODE = ("stages", "pipelines", "rapt", "dvc.yaml", "params.yaml")
LINES_SHOWN = 20
HALFWAY = (
    "interrupted while collecting: dvc.lock and the other files in git are as before, but some "
    "outs may be new. Start again to go on, or go back by `dvc checkout`."
)
# DVC's line for a stage whose outs it restores from an earlier run.
RESTORED = "Stage '{}' is cached - skipping run"
# Failures that may not recur: a killed process, as when memory runs out, a GPU out of memory, and
# a DVC lock that was held for longer than DVC waits.
MAY_PASS = re.compile(
    r"exited with (-9|-15|137|143)\b|out of memory|Unable to acquire lock"
    # PyTorch's, Python's and NumPy's messages when the machine is out of memory.
    r"|can't allocate memory|\bMemoryError\b|Unable to allocate"
)
# Seconds before each retry of a stage whose failure may not recur.
BACKOFF = (2, 10)


class Stopped(RaptError):
    """The flow was stopped, did not start a stage, or could not finish as stages failed."""


class CommandError(RaptError):
    """A failed command, with the log that says why.

    The message goes to Prefect's server, which may be another machine; the log stays here.
    """

    def __init__(self, name: str, code: int, log: Path) -> None:
        """Say that the command called `name` ended with exit code `code`."""
        super().__init__(f"{name}: exit {code}")
        self.code, self.log = code, log

    def tail(self) -> str:
        """Return the last lines of the log; of a progress bar, only its last state."""
        text = self.log.read_text(errors="replace")
        lines = [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
        return "\n".join([line for line in lines if line.strip()][-LINES_SHOWN:])

    @property
    def may_pass(self) -> bool:
        """Whether the command may succeed in a retry with nothing changed."""
        return self.code < 0 or MAY_PASS.search(self.tail()) is not None


class Slot:
    """A worktree of the snapshot, and the process that runs DVC in it."""

    def __init__(self, path: Path, environment: dict[str, str]) -> None:
        """Start the process; it dies with this thread."""
        self.path = path
        self._environment = environment
        self._process = self._start()

    def wake(self) -> None:
        """Start the process again if it was killed with its last stage."""
        if self._process.poll() is not None:
            self._process = self._start()

    def repro(self, stage: str, log: Path, gpu: str | None) -> int:
        """Run `dvc repro` of a stage; return its exit code, negative for a signal.

        The stage sees only the GPU `gpu`, or none. One process trains on a GPU.
        """
        assert self._process.stdin and self._process.stdout
        workers = "1" if gpu else self._environment["RAPT_WORKERS"]
        environment = {"CUDA_VISIBLE_DEVICES": gpu or "", "RAPT_WORKERS": workers}
        order = {"arguments": ["repro", stage], "log": str(log), "environment": environment}
        with suppress(BrokenPipeError):  # it was killed meanwhile: no answer will come
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return int(answer) if answer else self._process.wait() or 1

    def kill(self) -> None:
        """Kill the process and the stage that it runs."""
        _kill(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        return _start(
            *(sys.executable, "-P", dvc_api.__file__, "serve"),
            cwd=self.path,
            environment=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


class Slots:
    """The slots of one flow, as a context manager: no process of theirs outlives it."""

    def __init__(self, root: Path, count: int) -> None:
        """Prepare for `count` slots of the project at `root`."""
        self.root = root
        self.count = count
        # How many stages may run on other machines beside these.
        self.ahead = 0
        self.cache = graph.cache_dir(root)
        self._slots: list[Slot] = []
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        self._open = ExitStack()
        self._guard = threading.Lock()
        self._collecting: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        # Number of damaged objects removed from DVC's cache; they are made again.
        self.damaged = 0

    def __enter__(self) -> Self:
        """Take the snapshot, remove a crashed flow's slots and create new ones."""
        with ExitStack() as stack:
            stack.enter_context(_only_one(self.root))
            self.commit = snapshot(self.root)
            self._clear()
            stack.callback(self._clear)
            # Before the slots are created, whose dvc.lock then leaves out removed objects.
            self.damaged = remove_damaged(self.cache, self.root / ".rapt/cache.json")
            stack.callback(self.stop)
            for number in range(self.count):
                path = self._folder / str(number)
                worktree(self.root, path, self.commit, self.cache)
                slot = Slot(path, environment(path, self.root) | _share(self.count))
                self._slots.append(slot)
                self._free.put(slot)
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

        The stage sees only the lease's GPU, or none.

        Returns:
            the seconds that it ran; None: it came from the cache.

        Raises:
            CommandError: the stage failed.
        """
        stage, slot = lease.stage.name, self._free.get()
        log = self._log(stage)
        started = time.monotonic()
        try:
            with self._unless_stopped(stage):
                slot.wake()
            forget_others(slot.path)
            self._check(stage, slot.repro(stage, log, lease.gpu), log)
        finally:
            self._free.put(slot)
        if RESTORED.format(stage) in log.read_text(errors="replace"):
            return None
        return time.monotonic() - started

    def assemble(self) -> None:
        """Reproduce everything in the main workspace; nothing else writes its dvc.lock.

        Raises:
            CommandError: a stage failed.
            RaptError: files differ from the snapshot, or the flow is stopping.
        """
        if changed := [*_edited(self.root, self.commit), *_untracked(self.root)]:
            raise RaptError(
                f"workspace: got changes while the flow ran ({_listed(changed)}), expected none. "
                "What ran is in the cache, nothing else was touched. Start again."
            )
        with rollback.kept(self.root, ["dvc.lock", *graph.uncached(self.root)]):
            forget_lost(self.root / "dvc.lock", self.cache)
            try:
                self._collect()
            except Stopped:
                raise Stopped(HALFWAY) from None
            if changed := [*_edited(self.root, self.commit, *CODE), *_untracked(self.root)]:
                raise RaptError(
                    f"workspace: got changes while the flow collected ({_listed(changed)}), "
                    "expected none. dvc.lock is as it was, what ran is in the cache. Start again."
                )

    def finish(self) -> None:
        """Do nothing: every leased stage already runs."""

    def stop(self) -> None:
        """Kill everything that runs, and start nothing more."""
        with self._guard:
            self._stopped.set()
            for slot in self._slots:
                slot.kill()
            if self._collecting:
                _kill(self._collecting)

    @property
    def _folder(self) -> Path:
        return self.root / ".rapt/slots"

    def _clear(self) -> None:
        for path in self._folder.glob("*"):
            shutil.rmtree(path)
            # Forced twice: a worktree whose creation was interrupted is locked.
            git(self.root, "worktree", "remove", "--force", "--force", str(path), check=False)

    def _collect(self) -> None:
        """Check out all outs in dvc.lock at once, then reproduce.

        `dvc repro` would read and write all of dvc.lock, half a second, for each stage whose outs
        are missing, even if its entry does not change.
        """
        self._dvc("checkout", "--quiet")  # fails where an entry is old and its outs are gone
        log, code = self._dvc("repro")
        self._check("dvc repro", code, log)

    def _dvc(self, *arguments: str) -> tuple[Path, int]:
        """Run DVC in the main workspace; return its log and exit code."""
        name = f"dvc {arguments[0]}"
        log = self._log(name)
        with log.open("wb") as output:
            with self._unless_stopped(name):
                self._collecting = _start(
                    *(*DVC, *arguments),
                    cwd=self.root,
                    environment={},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            return log, self._collecting.wait()

    def _log(self, name: str) -> Path:
        """Create an empty log and return its path."""
        log = self.root / ".rapt/logs" / f"{name.replace('/', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        return log

    @contextmanager
    def _unless_stopped(self, name: str) -> Iterator[None]:
        """Guard the start of a process, so that `stop` finds it; raise if already stopped."""
        with self._guard:
            if self._stopped.is_set():
                raise Stopped(f"{name}: not started")
            yield

    def _check(self, name: str, code: int, log: Path) -> None:
        if self._stopped.is_set():
            raise Stopped(f"{name}: stopped")
        if code:
            raise CommandError(name, code, log)


def _start(
    *command: str,
    cwd: Path,
    environment: dict[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    stderr: int,
) -> subprocess.Popen[bytes]:
    """Start a command that dies with this thread; Ctrl-C in the terminal does not reach it."""
    return subprocess.Popen(
        process.tethered(*command),
        cwd=cwd,
        env=os.environ | PATH | environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _kill(running: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its children."""
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def snapshot(root: Path) -> str:
    """Return a commit of the workspace's tracked files as they are now, edits included.

    Raises:
        RaptError: there is code that git neither tracks nor ignores.
    """
    if others := _untracked(root):
        raise RaptError(
            f"{_listed(others)}: got untracked code, expected what git tracks or ignores. "
            "Next: git add it; or run dvc repro, which takes it as it is, one stage at a time."
        )
    # Otherwise `stash create` fails silently where a file was edited and restored.
    git(root, "update-index", "-q", "--refresh", check=False)
    return git(root, "stash", "create") or git(root, "rev-parse", "HEAD")


def _untracked(root: Path) -> list[str]:
    """List the code that git neither tracks nor ignores."""
    return git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines()


def _edited(root: Path, commit: str, *paths: str) -> list[str]:
    """List tracked files, under `paths` if given, that differ from the snapshot."""
    return git(root, "diff", "--name-only", commit, "--", *paths).splitlines()


def _only_one(root: Path) -> ExitStack:
    """Take the flow's lock, which the kernel releases when this process dies."""
    path = root / ".rapt/flow.lock"
    path.parent.mkdir(exist_ok=True)
    stack = ExitStack()
    file = stack.enter_context(path.open("a+"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stack.close()
        since = time.strftime("%H:%M", time.localtime(path.stat().st_mtime))
        raise RaptError(
            f"Another flow is already running in this workspace (pid {path.read_text()}, since "
            f"{since}). Wait for it, or stop it by Ctrl-C."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return stack


def _share(count: int) -> dict[str, str]:
    """Return a slot's part of the cores, as variables of its environment."""
    cores = str(max(1, process.cores() // count))
    return {"RAPT_WORKERS": cores, "OMP_NUM_THREADS": cores}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def recover(root: Path) -> None:
    """Restore the files that a flow left half-written when it was killed while collecting.

    Raises:
        RaptError: another flow is running.
    """
    with _only_one(root):
        rollback.give_back(root)


def gpus() -> list[str]:
    """Return the ids of usable GPUs: CUDA_VISIBLE_DEVICES, else all that the driver lists."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        named = [device.strip() for device in visible.split(",") if device.strip()]
        # As in CUDA, the invalid id -1 ends the list.
        return list(takewhile(lambda device: device != "-1", named))
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.split()  # without a driver it prints an error
