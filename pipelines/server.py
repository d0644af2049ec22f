"""Prefect servers on this machine: one flow's own, or the project's (`make prefect`)."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import typer
from prefect import get_client
from prefect.context import get_settings_context
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_KEY,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from rapt.paths import STATE
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.process import tethered

SECONDS_TO_START = 120  # the first start migrates a database: slow where the cores are busy
SECONDS_TO_STOP = 5

Begun = tuple[subprocess.Popen[bytes], int]  # a server that is starting, and its port
ADDRESS = STATE / "prefect.url"  # of the server that `make prefect` keeps for this project
# A profile may name a database that is gone.
NO_PROFILE = {"PREFECT_PROFILES_PATH": os.devnull}
FEW_RETRIES = 1  # a server on this machine that is gone stays gone


@contextmanager
def running(begun: Begun | None = None, *, pool: bool = False) -> Iterator[None]:
    """Use the server that PREFECT_API_URL names, or this project's, else one for this flow alone.

    A Prefect profile names the server of the user's pools. A flow without a pool does not use it:
    it may be gone, or others may read it. Prefect would start one by itself, but that one outlives
    a killed flow. And Ctrl-C in the terminal ends it before the flow, which then waits minutes.
    """
    if _is_named(pool):
        yield
        return
    address = _of_project() or _wait(*(begun or _begin()))
    with temporary_settings(
        {PREFECT_API_URL: address, PREFECT_CLIENT_MAX_RETRIES: FEW_RETRIES},
        restore_defaults={PREFECT_API_KEY, PREFECT_API_AUTH_STRING},  # of a profile's server
    ):
        yield


def begin(*, pool: bool = False) -> Begun | None:
    """Begin to start a server for this flow alone, unless there is one that it will use."""
    return None if _is_named(pool) or _of_project() else _begin()


def _is_named(pool: bool) -> bool:
    """Whether a server is named: by PREFECT_API_URL, or for a flow on a pool by a profile.

    Raises:
        RaptError: it does not answer.
    """
    by_profile = PREFECT_API_URL in get_settings_context().profile.settings
    ours = pool or not by_profile or "PREFECT_API_URL" in os.environ
    if not ours or not PREFECT_API_URL.value():
        return False
    with get_client(sync_client=True) as client:
        if client.api_healthcheck():
            raise RaptError(no_answer())
    return True


def no_answer() -> str:
    """Format the message for a server that is named and does not answer."""
    return (
        f"PREFECT_API_URL: got no answer at {PREFECT_API_URL.value()}, expected a Prefect server "
        "there. Try: prefect server start"
    )


@contextmanager
def needed() -> Iterator[None]:
    """Run a flow; where its server dies meanwhile, say so in one line."""
    try:
        yield
    except httpx.TransportError as error:
        raise RaptError(
            "prefect: got no answer of its server any more, expected one. Finished stages are in "
            "the cache. Start again."
        ) from error


def _of_project() -> str | None:
    address = ADDRESS.read_text().strip() if ADDRESS.exists() else None
    return address if address and _healthy(address) else None


def _begin() -> Begun:
    """Begin to start a server that ends with this process."""
    port = _free_port()
    server = _start(port, "--no-ui")
    # Not at the end of the block: Prefect's own threads send their last logs when Python exits.
    atexit.register(_stop, server)
    return server, port


def serve(port: Annotated[int, typer.Option(help="On this machine alone.")] = 4200) -> None:
    """Keep a Prefect server with its pages for this project's flows, until Ctrl-C."""
    server = _start(port)
    try:
        address = _wait(server, port)
        ADDRESS.parent.mkdir(exist_ok=True)  # a fresh clone has none
        files.write_bytes(ADDRESS, [address.encode()])
        print(f"Prefect: {address.removesuffix('/api')}; `make repro` in another terminal uses it")
        sys.exit(server.wait())
    except RaptError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(0)
    finally:
        ADDRESS.unlink(missing_ok=True)
        _stop(server)


def _start(port: int, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "prefect", "server", "start", *options]
    return subprocess.Popen(
        tethered(*command, "--host", "127.0.0.1", "--port", str(port)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PREFECT_SERVER_LOGGING_LEVEL": "ERROR"} | NO_PROFILE,
    )


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int) -> str:
    """Its address, as soon as it answers."""
    address, end = f"http://127.0.0.1:{port}/api", time.monotonic() + SECONDS_TO_START
    while server.poll() is None and time.monotonic() < end:
        if _healthy(address):
            return address
        time.sleep(0.1)
    ended = server.poll()
    got = "no answer" if ended is None else f"a server that ended with exit status {ended}"
    within = f" within {SECONDS_TO_START} s" if ended is None else ""
    raise RaptError(
        f"prefect: got {got}, expected one on port {port}{within}. To see why: prefect server start"
    )


def _healthy(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", timeout=5, trust_env=False).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    typer.run(serve)
