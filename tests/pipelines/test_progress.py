"""Lines of a running flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.progress import show_end, show_running
from pipelines.schedule import Lease, Schedule
from tests.pipelines.test_schedule import durations, plan


def test_a_line_says_how_far_what_and_how_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = plan({"a@x": "", **dict.fromkeys("bcdefghij", "")})
    schedule = Schedule(stages, 2, [], durations(tmp_path, **dict.fromkeys(stages, 60)))
    for name, outcome in (("a@x", "63 s"), ("b", "cached"), ("c", "failed")):
        schedule.running[name] = Lease(stages[name], None), 0.0
        if name == "a@x":
            schedule._order.get_ready()
        schedule.end(name, success=outcome != "failed")
        show_end(schedule, name, outcome)
    assert capsys.readouterr().err.splitlines() == [
        " 1 of 10  a x  63 s  about 4 min left",
        " 2 of 10  b  cached  about 4 min left",
        " 3 of 10  c  failed  about 4 min left",
    ]


def test_a_quiet_flow_says_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule = Schedule(plan({"a@x": ""}), 1, [], durations(tmp_path, **{"a@x": 200}))
    show_running(schedule)
    schedule.next()
    (at,) = (at for _, at in schedule.running.values())
    monkeypatch.setattr("time.monotonic", lambda: at + 60)
    show_running(schedule)
    assert capsys.readouterr().err == "running: a x 60 s  about 2 min left\n"
