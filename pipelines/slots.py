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
from typing import Self

from pipelines import dvc_api, graph
from pipelines.cache import remove_damaged
from pipelines.checkout import PATH, environment, forget_others, git, head, worktree
from pipelines.schedule import Lease
from rapt import paths
from rapt.utils import files, process
from rapt.utils.device import VISIBLE, has_gpu, is_apple
from rapt.utils.errors import RaptError

# The paths of code: a snapshot leaves out untracked files, and a slot would lack them.
CODE = ("stages", "pipelines", "rapt", "dvc.yaml", "params.yaml")
LINES_SHOWN = 20
INTERRUPTED = "interrupted: what is finished stays in the cache; start again to go on"
# DVC's line for a stage whose outs it restores from an earlier run.
RESTORED = "Stage '{}' is cached - skipping run"
# Failures that may not recur: a process killed for memory, a GPU out of memory, a lock of DVC's
# that was held for too long.
MAY_PASS = re.compile(
    r"exited with (-9|-15|137|143)\b|out of memory|Unable to acquire lock"
    # PyTorch's, Python's and NumPy's messages when the machine is out of memory.
    r"|can't allocate memory|\bMemoryError\b|Unable to allocate"
)
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
    """A checkout, and the process that runs DVC in it."""

    def __init__(self, path: Path, environment: dict[str, str]) -> None:
        """Start the process; it dies with this thread."""
        self.path = path
        self._environment = environment
        self._process = self._start()

    def wake(self) -> None:
        """Start the process again if it was killed with its last stage."""
        if self._process.poll() is not None:
            self._process = self._start()

    def dvc(self, *arguments: str, log: Path, gpu: str | None = None, sharing: int = 1) -> int:
        """Run a command of DVC; return its exit code, negative for a signal.

        Its stages see only the GPU `gpu`, or none. Of a GPU they take one of `sharing` parts.
        """
        assert self._process.stdin and self._process.stdout
        # On a GPU its memory decides, unless the user does.
        users = os.environ.get("RAPT_WORKERS", "")
        workers = users if gpu else self._environment["RAPT_WORKERS"]
        # A number of the user's RAPT_DEVICE is not that of the one GPU that is seen.
        where = os.environ.get("RAPT_DEVICE", "").partition(":")[0] if gpu else "cpu"
        environment = {"CUDA_VISIBLE_DEVICES": gpu or "", "HIP_VISIBLE_DEVICES": gpu or ""}
        environment |= {"RAPT_DEVICE": where, "RAPT_WORKERS": workers, "RAPT_CARDS": "1"}
        environment |= {"RAPT_PER_GPU": str(sharing)}
        order = {"arguments": arguments, "log": str(log), "environment": environment}
        with suppress(BrokenPipeError):  # it was killed meanwhile: no answer will come
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return int(answer) if answer else self._process.wait() or 1

    def kill(self) -> None:
        """Kill the process and the stage that it runs."""
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            process.tethered(sys.executable, "-P", dvc_api.__file__, "serve"),
            cwd=self.path,
            env=os.environ | PATH | self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
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
            with self._unless_stopped():
                slot.wake()
            forget_others(slot.path)
            log = self._dvc(slot, stage, "repro", stage, gpu=lease.gpu, sharing=lease.sharing)
        finally:
            self._free.put(slot)
        if RESTORED.format(stage) in log.read_text(errors="replace"):
            return None
        return time.monotonic() - started

    def assemble(self) -> None:
        """Reproduce everything in one more slot, then take over what it wrote, dvc.lock too."""
        locks = [str(slot.path / "dvc.lock") for slot in self._slots]
        slot = self._worktree("all")
        # `dvc repro` alone would read and write all of dvc.lock, half a second and more, for each
        # stage whose entry is missing, or whose outs are.
        self._dvc(slot, "gather", "gather", *locks)
        with suppress(CommandError):  # an entry is old and its outs are gone
            self._dvc(slot, "dvc checkout", "checkout", "--quiet")
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

    def finish(self) -> None:
        """Do nothing: every leased stage already runs."""

    def stop(self) -> None:
        """Kill everything that runs, and start nothing more."""
        with self._guard:
            self._stopped.set()
            for slot in self._slots:
                slot.kill()

    @property
    def _folder(self) -> Path:
        return self.root / paths.STATE / "slots"

    def _clear(self) -> None:
        for path in self._folder.glob("*"):
            shutil.rmtree(path)
            # Forced twice: a worktree whose creation was interrupted is locked.
            git(self.root, "worktree", "remove", "--force", "--force", str(path), check=False)

    def _worktree(self, name: str) -> Slot:
        """Create a slot on a worktree of the snapshot."""
        project = worktree(self.root, self._folder / name, self.commit, self.cache)
        return self._slot(project, environment(project, self.root))

    def _slot(self, path: Path, variables: dict[str, str]) -> Slot:
        with self._unless_stopped():
            slot = Slot(path, variables | _share(self.count))
            self._slots.append(slot)
        return slot

    def _dvc(
        self, slot: Slot, name: str, *arguments: str, gpu: str | None = None, sharing: int = 1
    ) -> Path:
        """Run DVC in a slot on behalf of `name`; return its log.

        Raises:
            CommandError: it failed.
            Stopped: the flow has stopped meanwhile.
        """
        log = self.root / paths.LOGS / f"{name.replace('/', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        code = slot.dvc(*arguments, log=log, gpu=gpu, sharing=sharing)
        if self._stopped.is_set():
            raise Stopped
        if code:
            raise CommandError(name, code, log)
        return log

    @contextmanager
    def _unless_stopped(self) -> Iterator[None]:
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


def _share(count: int) -> dict[str, str]:
    """Return a slot's part of the cores, as variables of its environment."""
    cores = str(max(1, process.cores() // count))
    return {"RAPT_WORKERS": cores, "OMP_NUM_THREADS": cores}


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
