"""Errors in one line: a disk's, and names that are not allowed."""

import errno
import re
from pathlib import Path

import pytest

from rapt.utils.errors import RaptError, disk_errors, not_allowed, wrong_eta


def test_a_name_that_is_not_allowed_has_its_nearest_match() -> None:
    line = not_allowed("tuner", "lara", ["prefix", "lora"])
    assert line == "tuner: got 'lara', expected one of lora, prefix. Did you mean 'lora'?"
    assert not_allowed("tuner", "x", ["lora"]) == "tuner: got 'x', expected lora."
    assert not_allowed("tuner", "x", []) == "tuner: got 'x', expected nothing."


def test_an_eta_is_shown_as_it_was_given() -> None:
    assert wrong_eta(-1.0).startswith("got -1, expected a number above 0")
    assert wrong_eta("fifty").startswith("got 'fifty', expected a number above 0")


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
def test_an_error_of_the_disk_is_one_line_with_its_file(number: int, tmp_path: Path) -> None:
    path = tmp_path / "out"
    line = rf"^{re.escape(str(path))}: got [^\n]+, expected "
    with pytest.raises(RaptError, match=line), disk_errors():
        raise OSError(number, "Not Possible", str(path))


def test_another_error_of_the_system_stays(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_errors():
        (tmp_path / "absent").read_text()
