"""Runs that are lost."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, StateType

from pipelines import heartbeat


def test_a_run_is_lost_when_nothing_new_is_heard_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: now))
    heard = heartbeat.Heartbeat()

    def lost(state: StateType, beat: int | None = None) -> bool:
        labels: dict[str, Any] = {} if beat is None else {heartbeat.LABEL: beat}
        return heard.lost(FlowRun(flow_id=uuid4(), state_type=state, labels=labels))

    for now, state, beat, expected in (
        (0.0, StateType.SCHEDULED, None, False),
        (9e9, StateType.SCHEDULED, None, False),  # no worker is free
        (9e9, StateType.PENDING, None, False),
        (9e9 + 800, StateType.PENDING, None, False),
        (9e9 + 1000, StateType.PENDING, None, True),
        (9e9 + 1000, StateType.RUNNING, None, False),
        (9e9 + 1100, StateType.RUNNING, 0, False),
        (9e9 + 1200, StateType.RUNNING, 1, False),
        (9e9 + 1300, StateType.RUNNING, 1, False),
        (9e9 + 1330, StateType.RUNNING, 1, True),
    ):
        assert lost(state, beat) is expected, (now, state)
