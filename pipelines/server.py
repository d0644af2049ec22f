"""A Prefect server for one flow, where the user has none."""

from __future__ import annotations

import atexit
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.settings import PREFECT_API_URL, temporary_settings

from rapt.errors import RaptError
from rapt.process import TETHER

SECONDS_TO_START = 120  # the first start migrates a database: slow where the cores are busy
SECONDS_TO_STOP = 5


@contextmanager
def running() -> Iterator[None]:
    """Use the Prefect server that PREFECT_API_URL names, else one that ends with this process.

    Prefect would start one by itself, but that one outlives a killed flow, and Ctrl-C in the
    terminal ends it before the flow, which then waits minutes for it.

    Raises:
        RaptError: the server did not start.
    """
    if PREFECT_API_URL.value():
        yield
        return
    port = _free_port()
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui"]
    server = subprocess.Popen(
        [*TETHER, *command, "--host", "127.0.0.1", "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PREFECT_SERVER_LOGGING_LEVEL": "ERROR"},
    )
    # Not at the end of the block: Prefect's own threads send their last logs when Python exits.
    atexit.register(_stop, server)
    _wait(server, port)
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
        yield


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


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while server.poll() is None and time.monotonic() < end:
        if _healthy(port):
            return
        time.sleep(0.1)
    raise RaptError("Prefect's server did not start: try `prefect server start`")


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
