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
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PR_SET_PDEATHSIG = 1


def no_telemetry() -> None:
    """Switch off every tool's analytics for this process and its children."""
    os.environ.update(NO_TELEMETRY)


def no_proxy_on_loopback() -> None:
    """Have this process and its children reach servers on this machine without a proxy.

    Another machine's proxy cannot reach them, and would read what is said to them. The names of
    the environment's own NO_PROXY stay. Python reads the spelling in lower case first, other
    programs only one of both.
    """
    names = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    hosts = [name.strip() for name in names.split(",") if name.strip()]
    if "*" not in hosts:  # which means every host, for Python only where it stands alone
        hosts += [host for host in LOOPBACK if host not in hosts]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(hosts)


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
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers(most: int) -> int:
    """Return how many processes to run in parallel: RAPT_WORKERS, else the cores; at most `most`.

    Raises:
        RaptError: RAPT_WORKERS is not a whole number above 0.
    """
    from rapt.utils.errors import RaptError  # not above: `tethered` runs this file alone

    given = os.environ.get("RAPT_WORKERS") or str(cores())
    if not given.isdecimal() or not int(given):
        raise RaptError(f"RAPT_WORKERS: got {given!r}, expected a whole number above 0.")
    return min(most, int(given))


if __name__ == "__main__":  # see tethered
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
