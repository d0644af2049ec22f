"""Progress bars stay out of logs."""

from __future__ import annotations

import pytest

from rapt.utils.progress import bar, counter


def test_where_there_is_no_terminal_items_pass_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert list(bar(iter("abc"), "letters", 3)) == ["a", "b", "c"]
    with counter("letters", None, "letters") as counted:
        counted.update(3)
    assert capfd.readouterr() == ("", "")
