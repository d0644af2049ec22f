"""Heartbeats of runs on other machines, which the user's machine watches.

Prefect's server learns from a worker that its run died, but not if the whole machine is gone. So
the run itself increments a label on the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run

LABEL = "rapt.beat"
SECONDS_BETWEEN_BEATS = 10.0
# Seconds without a heartbeat after which a run counts as dead. A pending run cannot send one: its
# image may be downloading. A tunnel or a network may fail for a minute.
SILENCE = {StateType.PENDING: 900.0, StateType.RUNNING: 120.0}


@contextmanager
def beating() -> Iterator[None]:
    """Send heartbeats for this flow run until it ends or its process dies."""
    stop = threading.Event()
    threading.Thread(target=_beat, args=(UUID(flow_run.get_id()), stop), daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def _beat(run: UUID, stop: threading.Event) -> None:
    with get_client(sync_client=True) as client:
        for number in count():
            with suppress(httpx.HTTPError, PrefectException):  # the next heartbeat may arrive
                client.update_flow_run_labels(run, {LABEL: number})
            if stop.wait(SECONDS_BETWEEN_BEATS):
                return


class Heartbeat:
    """The last heartbeat seen of one run, timed by this machine's clock."""

    def __init__(self) -> None:
        """Start without a heartbeat."""
        self._last: object = None
        self._since = 0.0

    def lost(self, run: FlowRun) -> bool:
        """Whether the run, as the server now reports it, has been silent for too long."""
        sign = run.state_type, run.labels.get(LABEL)
        if sign != self._last:
            self._last, self._since = sign, time.monotonic()
        silence = SILENCE.get(run.state_type) if run.state_type else None
        return silence is not None and time.monotonic() - self._since > silence
