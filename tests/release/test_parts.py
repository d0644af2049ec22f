import stat
from pathlib import Path

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
        parts.join_map()
        parts.remove()
    assert (tmp_path / "map").read_text() == "old 0\nold 1\n"
    assert stat.S_IMODE((tmp_path / "map").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["map"]


def test_what_cannot_be_read_again_starts_anew(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "out")
    for _ in range(2):
        with parts.opened({}, resumable=False):
            assert 0 not in parts
            add(parts, 0)


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
