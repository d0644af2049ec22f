"""Process setup for the pipeline: no telemetry, and no process outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from pathlib import Path

NO_TELEMETRY = {
    "DVC_NO_ANALYTICS": "1",
    "DO_NOT_TRACK": "true",  # MLflow takes no other spelling; Prefect's client has no other name
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
PR_SET_PDEATHSIG = 1
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
STAGE_MEMORY = 3 << 29  # bytes that a stage which tunes a small model takes


def no_telemetry() -> None:
    """Switch off every tool's analytics for this process and its children, and loopback's proxy.

    What goes to a server of this machine, such as a flow's own, is nothing for a proxy to see.
    """
    os.environ.update(NO_TELEMETRY)
    # Python reads the name in lower case first: each gets the hosts of the other.
    both = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    direct = [host.strip() for host in both.split(",") if host.strip()]
    if "*" not in direct:  # every host, for Python only where it stands alone
        direct += [host for host in LOOPBACK if host not in direct]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(direct)


def tethered(*command: str) -> list[str]:
    """Wrap a command so that it dies with this process, or with the thread that starts it."""
    # By path and without the working folder (-P), which may contain another `rapt`.
    return [sys.executable, "-P", __file__, str(os.getpid()), *command]


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere nothing happens).

    Killing `dvc` would otherwise leave its stage running beside the next `dvc repro`. The parent
    may have died before this call, so who knows its id gives it.
    """
    if sys.platform != "linux":
        return
    if parent is None:
        pool = parent_process()  # a pool's process takes seconds to get here
        parent = pool.pid if pool and pool.pid else os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def beside_no_flow(lock: Path) -> Iterator[None]:
    """Keep flows away while a stage runs in the main workspace; the stages of flows run in others.

    Args:
        lock: the flow's, of which stages hold a share. The kernel releases it when they die.

    Raises:
        RaptError: a flow runs here.
    """
    import fcntl

    from rapt.utils.errors import RaptError  # not above: `tethered` runs this file alone

    home = os.environ.get("RAPT_HOME")
    if home and Path(home).resolve() != Path().resolve():
        yield
        return
    lock.parent.mkdir(exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RaptError(
                f"{lock}: got a flow that runs in this workspace (pid {lock.read_text()}), "
                "expected none beside dvc repro: both would work on the same cells. Wait for it, "
                "or stop it by Ctrl-C."
            ) from None
        yield


@contextmanager
def without(package: str) -> Iterator[None]:
    """Have imports of a package fail, unless it is imported already.

    For packages that import a large one where it is installed, and do without it where it is not.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def cores() -> int:
    """Return the number of cores that this process may use, by affinity and a container's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = min((q for group in _groups("cpu") for q in _quota(group)), default=count)
    return max(1, min(count, int(quota)))


def memory() -> int:
    """Return the bytes of memory that this process may use, by the machine's and a container's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *(limit for group in _groups("memory") for limit in _limit(group))])


def slots() -> int:
    """Return how many stages may run side by side: one a core, as far as memory goes."""
    return max(1, min(cores(), memory() // STAGE_MEMORY))


def _groups(controller: str) -> set[Path]:
    """Return the folders of this process's control groups and of those around them.

    Version 2 has one tree for all controllers, version 1 one for each.
    """
    groups = set[Path]()
    lines = OWN_CGROUPS.read_text().splitlines() if OWN_CGROUPS.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and controller not in controllers.split(","):
            continue
        tree = CGROUPS / controller if controllers else CGROUPS
        # In a container the path may be the host's, where its own tree begins with its group.
        group = tree / path.lstrip("/")
        groups |= {tree, group, *(one for one in group.parents if tree in one.parents)}
    return groups


def _quota(group: Path) -> list[float]:
    """Return a group's quota of cores, nothing if there is none."""
    if one := _numbers(group / "cpu.max"):
        return [one[0] / one[1]] if len(one) == 2 else []
    quota, period = (_numbers(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return [quota[0] / period[0]] if quota and period and quota[0] > 0 else []


def _limit(group: Path) -> list[int]:
    return _numbers(group / "memory.max") or _numbers(group / "memory.limit_in_bytes")


def _numbers(path: Path) -> list[int]:
    """Return the numbers in a file, without the word `max`; nothing if there is no such file."""
    try:
        return [int(word) for word in path.read_text().split() if word != "max"]
    except (OSError, ValueError):
        return []


def workers(most: int) -> int:
    """Return how many processes to run in parallel: RAPT_WORKERS, else the cores; at most `most`.

    Raises:
        RaptError: RAPT_WORKERS is not a whole number above 0.
    """
    return min(most, _from_environment("RAPT_WORKERS", cores()))


def cards() -> int:
    """Return how many cards train a seed together: RAPT_CARDS, else 1.

    Raises:
        RaptError: RAPT_CARDS is not a whole number above 0.
    """
    return _from_environment("RAPT_CARDS", 1)


def per_gpu() -> int:
    """Return how many stages of a flow share this process's GPU: RAPT_PER_GPU, which a slot sets.

    Raises:
        RaptError: it is not a whole number above 0.
    """
    return _from_environment("RAPT_PER_GPU", 1)


def _from_environment(name: str, default: int) -> int:
    from rapt.utils.errors import RaptError  # not above: `tethered` runs this file alone

    given = os.environ.get(name) or str(default)
    if not given.isdecimal() or not int(given):
        raise RaptError(f"{name}: got {given!r}, expected a whole number above 0.")
    return int(given)


if __name__ == "__main__":  # see tethered
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
