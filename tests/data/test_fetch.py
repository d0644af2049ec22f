import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from rapt.data import fetch
from rapt.data.config import PackageSource
from rapt.data.prepare import prepare
from rapt.utils.errors import RaptError
from tests.data.conftest import make_task

TABLE = b"id\ttext\n1\tgood day\n2\tbad day\n3\tlong day\n"


def tar_gz(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on a local index: an archive with a table lies in it."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    path = tmp_path / "index" / "tiny_data-1.0-py3-none-any.whl"
    path.parent.mkdir()
    path.write_bytes(
        zipped(
            {
                "tiny/inner.tar.gz": tar_gz({"inner/table.tsv": TABLE}),
                "tiny_data-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-data\n"
                b"Version: 1.0\n",
                "tiny_data-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\n"
                b"Root-Is-Purelib: true\nTag: py3-none-any\n",
                "tiny_data-1.0.dist-info/RECORD": b"",
            }
        )
    )
    return path


def source(sha256: str, **changes: object) -> PackageSource:
    content = {
        "type": "package",
        "requirement": "tiny-data==1.0",
        "artifact": "wheel",
        "sha256": sha256,
        "members": ["tiny/inner.tar.gz", "inner/table.tsv"],
    }
    return PackageSource.model_validate({**content, **changes})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_table_is_read_from_an_archive_in_a_wheel(wheel: Path) -> None:
    task = make_task({"all": "any"}, "tsv", source=source(digest(wheel)).model_dump())
    prepared = prepare("tiny", task, seed=0)
    texts = [t for table in prepared.tables.values() for t in table["text"].to_pylist()]
    assert sorted(texts) == ["bad day", "good day", "long day"]
    assert prepared.summary["source"]["file"] == wheel.name
    assert prepared.summary["source"]["sha256"] == digest(wheel)


def test_a_wrong_hash_says_which_file_expected_and_found(wheel: Path) -> None:
    with pytest.raises(RaptError) as error:
        fetch.package(source("0" * 64))
    assert str(error.value) == (f"tiny-data==1.0: got sha256 {digest(wheel)}, expected {'0' * 64}.")


def test_a_file_cut_short_is_not_taken(wheel: Path) -> None:
    whole = digest(wheel)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(RaptError, match=f"got sha256 {digest(wheel)}, expected {whole}"):
        fetch.package(source(whole))


def test_a_package_that_is_not_there(wheel: Path) -> None:
    with pytest.raises(RaptError, match="got no wheel of this version"):
        fetch.package(source(digest(wheel), requirement="tiny-data==2.0"))


def test_no_network(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nothing listens there
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(
        RaptError, match=r"^tiny-data==1\.0: got no connection, expected the package"
    ):
        fetch.package(source(digest(wheel)))


@pytest.mark.parametrize("pack", [tar_gz, zipped])
def test_a_member_that_is_not_there_has_a_nearest_match(pack) -> None:
    archive = pack({"a/table.tsv": TABLE})
    assert fetch.member(archive, "a/table.tsv", "x") == TABLE
    with pytest.raises(RaptError, match=r"got 'a/tabel.tsv', expected .*\. Did you mean 'a/table"):
        fetch.member(archive, "a/tabel.tsv", "x")


@pytest.mark.parametrize("data", [b"", b"no archive", tar_gz({"a": TABLE * 99})[:-30]])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(
        RaptError,
        match=r"^x: got another format or a broken file, expected a zip or tar archive\.$",
    ):
        fetch.member(data, "a", "x")


def test_a_folder_is_no_member() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    with pytest.raises(RaptError, match=r"^x: got 'a', expected a file, not a folder\.$"):
        fetch.member(out.getvalue(), "a", "x")


def test_an_sdist_of_another_hash_is_not_built(wheel: Path) -> None:
    """Pip runs an sdist's setup.py for its metadata; with a wrong hash it must stop before."""
    marker = wheel.with_name("ran")
    sdist = wheel.with_name("tiny_data-1.0.tar.gz")
    info = b"Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n"
    setup = f"open({str(marker)!r}, 'w')".encode()
    sdist.write_bytes(tar_gz({"tiny_data-1.0/PKG-INFO": info, "tiny_data-1.0/setup.py": setup}))
    with pytest.raises(RaptError, match=f"got sha256 {digest(sdist)}, expected {'0' * 64}"):
        fetch.package(source("0" * 64, artifact="sdist"))
    assert not marker.exists()
