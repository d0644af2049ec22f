import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from rapt.utils import files
from rapt.utils.errors import RaptError

pytestmark = pytest.mark.usefixtures("empty")


def test_a_failure_leaves_nothing_and_keeps_what_was() -> None:
    files.write_json("out/a.json", {"x": 1})
    with pytest.raises(RuntimeError), files.atomic("out/a.json") as scratch:
        scratch.write_text("half")
        raise RuntimeError
    assert files.read_json("out/a.json") == {"x": 1}
    with pytest.raises(RuntimeError), files.atomic("out/folder") as scratch:
        scratch.mkdir()
        (scratch / "x").write_text("half")
        raise RuntimeError
    assert not Path("out/folder").exists()
    assert not list(Path(".rapt/tmp").iterdir())


def test_kill_leaves_nothing_that_looks_whole() -> None:
    code = (
        "import os, signal\nfrom rapt.utils import files\n"
        "with files.atomic('out.txt') as scratch:\n"
        "    scratch.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(files.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not Path("out.txt").exists()


def test_an_error_of_the_disk_names_the_file() -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as error:
        files.write_bytes(Path("out.txt"), content())
    assert error.value.filename == "out.txt"
    assert not Path("out.txt").exists()


def test_a_folder_is_replaced_whole() -> None:
    for name in ("old", "new"):
        with files.atomic("out") as scratch:
            scratch.mkdir()
            (scratch / name).write_text(name)
    assert [p.name for p in Path("out").iterdir()] == ["new"]


def test_a_place_on_another_disk_is_written_there(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a disk of its own")
    with TemporaryDirectory(dir=memory) as folder:
        for content in ({"x": 1}, {"x": 2}):
            files.write_json(f"{folder}/new/a.json", content)
            assert files.read_json(f"{folder}/new/a.json") == content
        assert [p.name for p in Path(folder).rglob("*")] == ["new", "a.json"]


def test_equal_content_gives_equal_bytes() -> None:
    files.write_json("a.json", {"b": 1, "a": "é"})
    files.write_json("b.json", json.loads('{"a": "é", "b": 1}'))
    assert files.sha256("a.json") == files.sha256("b.json")


def test_parquet_keeps_columns_and_drops_metadata() -> None:
    table = pa.table({"x": [1]}).replace_schema_metadata({"secret": "text"})
    files.write_parquet("x.parquet", table)
    assert files.read_parquet("x.parquet").schema.metadata is None


def test_digest_of_a_folder_sees_names_and_contents() -> None:
    for folder, name, text in (("a", "x", "1"), ("b", "y", "1"), ("c", "x", "2"), ("d", "x", "1")):
        Path(folder).mkdir()
        Path(folder, name).write_text(text)
    digests = [files.sha256(folder) for folder in "abcd"]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


def test_bytes_are_private_from_the_first_one_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "map"
    modes = []

    def content() -> Iterator[bytes]:
        (scratch,) = tmp_path.iterdir()
        modes.append(stat.S_IMODE(scratch.stat().st_mode))
        yield b"some"
        assert not path.exists()
        yield b"thing"

    files.write_bytes(path, content(), 0o600)
    assert modes == [0o600]
    assert path.read_bytes() == b"something"
    assert [p.name for p in tmp_path.iterdir()] == ["map"]


def test_what_a_killed_write_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "map.tmp").write_bytes(b"half")
    files.write_bytes(tmp_path / "map", [b"whole"])
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"map": b"whole"}


@pytest.mark.parametrize("home", [None, ""])
def test_without_a_home_a_folder_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    def no_entry(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with pytest.raises(RaptError, match=r"^XDG_DATA_HOME: got none and no home folder, expected"):
        files.of_user("XDG_DATA_HOME", ".local/share")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert files.of_user("XDG_DATA_HOME", ".local/share") == tmp_path
