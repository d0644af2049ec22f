import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from rapt.privacy.fates import Counts
from rapt.release.parts import Parts
from rapt.utils.errors import RaptError


def add(parts: Parts, number: int) -> None:
    parts.add(number, f"new {number}\n".encode(), f"old {number}\n".encode(), Counts(documents=2))


def test_parts_outlive_a_run_and_join_in_order(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "out", tmp_path / "map")
    with parts.opened({"eta": 1}, resumable=True):
        add(parts, 0)
    assert parts.begun
    with parts.opened({"eta": 1}, resumable=True):
        assert 0 in parts
        assert 1 not in parts
        add(parts, 1)
        assert parts.counts().documents == 4
        assert [path.read_text() for path in parts.contents()] == ["new 0\n", "new 1\n"]
        parts.remove(map=False)
    parts.join_map()
    assert (tmp_path / "map").read_text() == "old 0\nold 1\n"
    assert stat.S_IMODE((tmp_path / "map").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["map"]


@pytest.mark.parametrize("step", [(os, "replace"), (Path, "unlink"), (shutil, "rmtree")])
def test_a_map_is_whole_wherever_a_run_was_killed(
    step: tuple[object, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path / "out", tmp_path / "map")
    with parts.opened({}, resumable=True):
        for number in range(3):
            add(parts, number)
    done, calls = getattr(*step), iter(range(2))

    def killed(*args: Any, **how: Any) -> None:
        """Die at the second call, or after the only one."""
        if next(calls, None) == 1:
            raise KeyboardInterrupt
        done(*args, **how)
        if step[1] == "rmtree":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(*step, killed)
        parts.join_map()
    parts.join_map()
    assert (tmp_path / "map").read_text() == "old 0\nold 1\nold 2\n"
    assert {path.name for path in tmp_path.iterdir()} == {"map", "out.parts"}


def test_what_cannot_be_read_again_starts_anew(tmp_path: Path) -> None:
    """As another release, for the ledger counts a place of one only once."""
    parts, ids = Parts(tmp_path / "out", tmp_path / "map"), set()
    for numbers in ((0, 1), (0,)):
        with parts.opened({}, resumable=False):
            ids.add(parts.id)
            for number in numbers:
                assert number not in parts
                add(parts, number)
    assert len(ids) == 2
    parts.join_map()
    assert (tmp_path / "map").read_text() == "old 0\n"


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "out", tmp_path / "map")
    with parts.opened({"eta": 1, "columns": ("a",)}, resumable=True):
        pass
    with parts.opened({"eta": 1, "columns": ("a",)}, resumable=True):
        pass
    with (
        pytest.raises(RaptError, match="got another eta, expected that of the begun release"),
        parts.opened({"eta": 2, "columns": ("a",)}, resumable=True),
    ):
        pass
