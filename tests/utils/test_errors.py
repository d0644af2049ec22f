"""Errors in one line: the disk's, and names that are not allowed."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from rapt.utils import files


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_error_of_the_disk_names_the_file() -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as error:
        files.write_bytes(Path("out.txt"), content())
    assert error.value.filename == "out.txt"
    assert not Path("out.txt").exists()
