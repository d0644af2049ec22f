"""Lines of a running flow."""

from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from pipelines.progress import show_end, show_running
from pipelines.reproduce import _end
from pipelines.schedule import Lease, Schedule
from pipelines.slots import Stopped
from rapt.utils.errors import RaptError
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


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (httpx.ReadTimeout("no answer"), ["a@x: ReadTimeout: no answer"]),
        (RaptError("a: got 1, expected 2."), ["a: got 1, expected 2."]),
        (Stopped(), []),
    ],
)
def test_a_stage_that_failed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, lines: list[str]
) -> None:
    schedule = Schedule(plan({"a@x": ""}), 1, [], durations(tmp_path))
    schedule.next()
    state = SimpleNamespace(result=lambda *, raise_on_failure: error, is_completed=lambda: False)
    _end(schedule, "a@x", SimpleNamespace(wait=lambda: None, state=state))  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [*lines, "1 of 1  a x  failed"]
