"""A stage's outs reach the other machine, also if each run makes different bytes."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines import dvc_api
from pipelines.served import CommandError, Served
from tests.pipelines.conftest import FILES, Toy, make

pytestmark = pytest.mark.slow  # each starts DVC several times
# Two root stages whose bytes differ in each run, as may happen on a GPU.
RANDOM = """\
import os, secrets, sys
from pathlib import Path
folder = Path("models", sys.argv[1])
folder.mkdir(parents=True)
for name in ("adapter", "head"):
    (folder / name).write_text(secrets.token_hex())
for base in (Path("reports/cells"), Path(os.environ["RAPT_HOME"], ".rapt/runs")):
    (base / "train").mkdir(parents=True, exist_ok=True)
    (base / "train" / f"{sys.argv[1]}.json").write_text(f'"{secrets.token_hex()}"')
"""
STAGES = """\
stages:
  train:
    foreach: [a, b]
    do:
      cmd: exec python -m stages.random ${item}
      deps: [stages/random.py]
      outs: ["models/${item}", "reports/cells/train/${item}.json"]
"""
GIVEN = FILES | {
    "dvc.yaml": STAGES,
    "stages/random.py": RANDOM,
    "models/.gitignore": "/*\n!.gitignore\n",
}


@dataclass(frozen=True)
class Machine:
    """A clone with a cache of its own, and a process that runs DVC in it."""

    toy: Toy
    slot: Served

    def dvc(self, *arguments: str, check: bool = True) -> int:
        """Run a command of DVC or of dvc_api."""
        self.slot.wake()
        try:
            self.slot.run("dvc", *arguments)
        except CommandError as error:
            assert not check, error.tail()
            return error.code
        return 0

    def send(self, stage: str, *how: str) -> None:
        """Make a stage's outs, and push them."""
        self.dvc("repro", "-q", *how, stage)
        self.dvc("send", stage)

    def bring(self, stage: str) -> int:
        """Fetch a stage's outs, as the user's machine does, into a workspace that lacks them."""
        for folder in ("models", "reports/cells"):
            shutil.rmtree(self.toy.root / folder, ignore_errors=True)
        (self.toy.root / "dvc.lock").unlink(missing_ok=True)
        return self.dvc("bring", stage, check=False)

    def made(self, name: str) -> str:
        return (self.toy.root / "models" / name / "adapter").read_text()

    def sidecar(self, name: str) -> str:
        return (self.toy.root / f".rapt/runs/train/{name}.json").read_text()

    def lose_objects(self) -> None:
        shutil.rmtree(self.toy.root / ".dvc/cache/files")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    """The user's and a worker's machine, with a remote between them."""
    remote = tmp_path / "remote"
    remote.mkdir()
    there = f"    remote = shared\n['remote \"shared\"']\n    url = {remote}\n"
    config = GIVEN[".dvc/config"] + there
    found = []
    for name in ("user", "worker"):
        toy = make(tmp_path / name, "", GIVEN | {".dvc/config": config})
        slot = Served(toy.root, toy.root / ".rapt/logs", {"RAPT_HOME": str(toy.root)})
        found.append(Machine(toy, slot))
    yield found[0], found[1]
    for machine in found:
        machine.slot.kill()


def entry_of(remote: Path) -> Path:
    """The remote's entry of the run-cache, writable."""
    entry = next(path for path in (remote / "runs").rglob("*") if path.is_file())
    entry.chmod(0o644)
    return entry


def test_what_a_worker_made_comes_in_place_of_what_is_lost(
    machines: tuple[Machine, Machine],
) -> None:
    """The user's machine knows the stage, but its outs are neither here nor on the remote."""
    user, other = machines
    user.dvc("repro", "-q", "train@a")
    lost = user.made("a")
    user.lose_objects()
    assert user.bring("train@a") == dvc_api.NOTHING
    other.send("train@a")
    assert user.bring("train@a") == 0
    assert user.made("a") == other.made("a") != lost
    assert user.sidecar("a") == other.sidecar("a")  # it describes this run, not the lost one
    user.dvc("repro", "-q", "train@a")
    assert user.made("a") == other.made("a")  # it did not run

    for machine in machines:  # what is here stays what counts
        machine.dvc("repro", "-q", "train@b")
    other.dvc("send", "train@b")
    own = user.made("b")
    sidecar = user.sidecar("b")
    assert user.bring("train@b") == 0
    assert (user.made("b"), user.sidecar("b")) == (own, sidecar)
    assert own != other.made("b")


def test_no_entry_is_sent_before_its_outs(machines: tuple[Machine, Machine]) -> None:
    """An entry that could not be sent is not sent with another stage, without its outs."""
    user, other = machines
    other.dvc("repro", "-q")
    other.dvc("send", "train@b")
    assert user.bring("train@a") == dvc_api.NOTHING
    assert user.bring("train@b") == 0
    other.send("train@a", "--force")
    assert user.bring("train@a") == 0
    assert user.made("a") == other.made("a")


def test_an_entry_whose_outs_the_remote_has_lost_is_passed_over(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    user, other = machines
    other.send("train@a")
    shutil.rmtree(tmp_path / "remote/files")
    assert user.bring("train@a") == dvc_api.NOTHING
    entry_of(tmp_path / "remote").write_text("half of an en")
    for _ in range(2):
        assert user.bring("train@a") == dvc_api.NOTHING
    other.send("train@a", "--force")
    assert user.bring("train@a") == 0
    assert user.made("a") == other.made("a")


def test_an_entry_that_names_other_outs_is_not_taken(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """Otherwise anyone with write access to the remote could write any file here, even code."""
    user, other = machines
    other.send("train@a")
    entry = entry_of(tmp_path / "remote")
    entry.write_text(entry.read_text().replace("path: models/a", "path: rapt/a"))
    assert user.bring("train@a") == dvc_api.NOTHING
    assert not (user.toy.root / "rapt/a").exists()
    assert not list((user.toy.root / ".dvc/cache/runs").rglob("?" * 64 + "/*"))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_damaged_object_of_the_remote_is_not_used_and_a_new_address_helps(
    machines: tuple[Machine, Machine], tmp_path: Path, kind: str
) -> None:
    """Neither as a result nor as a need. DVC sends no object that the remote has."""
    user, other = machines
    other.send("train@a")
    user.dvc("repro", "-q", "train@b")
    user.dvc("give", "models/b")
    for path in (tmp_path / "remote/files/md5").glob("??/*"):
        if (path.suffix == ".dir") == (kind == "folder"):
            damage(path)
    need, lock = "models/b", other.toy.root / "dvc.lock"
    shutil.copy(user.toy.root / "dvc.lock", lock)
    assert other.dvc("take", need, check=False) == 1
    assert user.bring("train@a") != 0
    assert not (user.toy.root / "models/a").exists()

    (tmp_path / "new").mkdir()
    for machine in machines:
        machine.dvc("remote", "modify", "shared", "url", str(tmp_path / "new"))
    other.send("train@a")
    assert user.bring("train@a") == 0
    assert user.made("a") == other.made("a")
    user.dvc("repro", "-q", "train@b")
    user.dvc("give", need)
    shutil.copy(user.toy.root / "dvc.lock", lock)
    other.dvc("take", need)
    assert user.made("b") == other.made("b")


def damage(path: Path) -> None:
    """Change an object's content, but not its size."""
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_a_folder_that_is_away_is_no_empty_remote(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """Otherwise the stages whose outs it holds would run again."""
    user, other = machines
    for machine in machines:
        machine.dvc("repro", "-q", "train@a")
    other.dvc("send", "train@a")
    user.lose_objects()
    (tmp_path / "remote").rename(tmp_path / "away")
    assert user.bring("train@a") == 1
    (tmp_path / "away").rename(tmp_path / "remote")
    assert user.bring("train@a") == 0
