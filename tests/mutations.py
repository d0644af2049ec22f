"""Real faults, planted one by one, and the tests that have to notice each.

`python -m tests.mutations` plants each fault in a copy of the project and runs the tests of its
module. `python -m tests.mutations rapt/privacy stages` plants those in these folders alone. It
prints a line for each fault, and fails if one goes unnoticed. Pytest doesn't collect this file: all
faults together take a quarter of an hour.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT
from tests.test_mirror import ELSEWHERE, mirrored

TABLE = ROOT / "tests/mutations.diff"
SECONDS = 300  # tests that run longer hang, which is noticed, too
PASSED, FAILED = 0, 1  # exit codes of pytest; any other is an error of this table


class Fault(NamedTuple):
    """A fault in one line of the product.

    Attributes:
        file: where it is planted.
        right: what stands there, once in the file.
        wrong: what stands there instead.
        elsewhere: tests that should notice it, if they aren't those of the module.
    """

    file: str
    right: str
    wrong: str
    elsewhere: str = ""

    @property
    def tests(self) -> list[str]:
        """What should notice it, as pytest's arguments."""
        return (self.elsewhere or ELSEWHERE.get(self.file) or mirrored(self.file)).split()


def faults() -> Iterator[Fault]:
    """Yield those of mutations.diff, under the file (and the tests, if they are others')."""
    of_file = r"^(\S+\.py)(?:: (.+))?\n((?:[-+].*\n)+)"
    for file, elsewhere, changes in re.findall(of_file, TABLE.read_text("utf-8"), re.M):
        for change in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", changes, re.M):
            right, wrong = ("\n".join(line[1:] for line in part.splitlines()) for part in change)
            yield Fault(file, right, wrong, elsewhere)


FAULTS = [*faults()]


def main(folders: Sequence[str]) -> int:
    """Plant the faults below these folders; return how many go unnoticed."""
    chosen = [f for f in FAULTS if not folders or f.file.startswith(tuple(folders))]
    for fault in chosen:
        if (ROOT / fault.file).read_text().count(fault.right) != 1:
            sys.exit(f"{fault.file}: got no single {fault.right!r}, expected the line to change")
    with tempfile.TemporaryDirectory() as scratch:
        copy = _copied(Path(scratch))
        unnoticed = [fault for fault in chosen if not _is_noticed(copy, fault)]
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} faults are noticed")
    return len(unnoticed)


def _copied(scratch: Path) -> Path:
    """Copy the files of the project that git knows; the shared data stays beside it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    copy = scratch / "project"
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, copy / name)
    if (ROOT.parent / "shared").is_dir():
        (scratch / "shared").symlink_to((ROOT.parent / "shared").resolve())
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    return copy


def _is_noticed(copy: Path, fault: Fault) -> bool:
    path, before = copy / fault.file, (ROOT / fault.file).read_text()
    path.write_text(before.replace(fault.right, fault.wrong))
    start = time.monotonic()
    code = _tested(copy, fault.tests)
    seconds = time.monotonic() - start
    path.write_text(before)
    if code not in (PASSED, FAILED, None):
        sys.exit(
            f"{' '.join(fault.tests)}: got exit code {code} of pytest, expected tests that run"
        )
    said = "NOT noticed" if code == PASSED else "noticed"
    print(f"{said:11} {seconds:4.0f} s  {fault.file}: {fault.wrong.strip()}", flush=True)
    return code != PASSED


def _tested(copy: Path, tests: Sequence[str]) -> int | None:
    """Return the exit code of these tests; None: they hang."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    how: dict[str, Any] = {"cwd": copy, "env": environment, "timeout": SECONDS, "check": False}
    try:
        return subprocess.run(command, capture_output=True, **how).returncode
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
