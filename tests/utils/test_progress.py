"""Progress bars stay out of logs."""

import pytest

from rapt.utils import progress
from rapt.utils.progress import Steps, bar, counter


def test_where_there_is_no_terminal_items_pass_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert list(bar(iter("abc"), "letters", 3)) == ["a", "b", "c"]
    with counter("letters", None, "letters") as counted:
        counted.update(3)
    assert capfd.readouterr() == ("", "")


def test_a_long_run_says_in_lines_where_it_goes_on_and_how_far_it_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 6.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with Steps("privatizing", 9858, "document") as steps:
        steps.update(3170, True)  # of an earlier run: they do not count for the rate
        steps.update(100)
        steps.update(1000)
    assert capfd.readouterr().err.splitlines() == [
        "privatizing: going on at document 3,171 of 9,858",
        "privatizing: 4,270 of 9,858 documents, 100 a second, 0 min 56 s left",
    ]
