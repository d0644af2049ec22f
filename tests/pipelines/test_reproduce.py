"""The flow leaves what serial `dvc repro` leaves, whatever happens to it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_until
from tests.pipelines.conftest import PATIENCE, Toy, make

pytestmark = pytest.mark.slow

EVERY_STAGE = sorted(["validate", "1-a", "1-b", "2-a", "2-b", "report"])


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which waits for init to reap it, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


NOBODY = "import pwd\ndef nobody(user): raise KeyError(user)\npwd.getpwuid = nobody\n"


@pytest.mark.parametrize(("slots", "home"), [(1, None), (2, "")])
def test_same_bytes_as_serial_then_nothing_to_do(
    toy: Toy,
    expected: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    slots: int,
    home: str | None,
) -> None:
    """Also by a user without a name and a home, as in `docker run -u 54321 -e HOME=`."""
    (toy.root / "sitecustomize.py").write_text(NOBODY)
    monkeypatch.setenv("PYTHONPATH", str(toy.root))
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    first = toy.flow(slots)
    assert first.returncode == 0, first.stdout + first.stderr
    assert toy.outcome() == expected
    assert toy.names() == EVERY_STAGE
    assert toy.leftovers() == []
    assert toy.git("stash", "list") == ""
    # All entries come from the slots: DVC would write the whole file for each that it lacks.
    assert "Updating lock" not in (toy.root / ".rapt/logs/dvc repro.log").read_text()
    if slots == 1:
        return
    second = toy.flow(slots)
    assert second.returncode == 0
    assert "up to date" in second.stderr
    assert toy.names() == EVERY_STAGE

    (toy.root / "reports/cells/1-a.txt").write_text("1-a")  # cut off
    assert toy.flow(slots).returncode == 0
    assert toy.outcome() == expected
    assert toy.names() == EVERY_STAGE  # it came from the cache


@pytest.mark.parametrize("otherwise", ["", " by another"])
def test_what_is_lost_runs_once_though_it_comes_out_otherwise(done: Toy, otherwise: str) -> None:
    """As in a clone on a machine whose processor rounds otherwise: the deps are the lock's."""
    toy = done
    shutil.rmtree(toy.root / ".dvc/cache")
    toy.git("clean", "-ffdXq", "--exclude=!/.dvc/**")
    (toy.root / ".rapt").mkdir()
    toy.flag("processor").write_text(otherwise)
    flow = toy.flow()
    assert flow.returncode == 0, flow.stdout + flow.stderr
    assert toy.names() == EVERY_STAGE
    assert (toy.root / "reports/cells/1-a.txt").read_text().endswith(f"first{otherwise}")
    assert ("dvc.lock changed: this processor" in flow.stderr) == bool(otherwise)
    assert "Updating lock" not in (toy.root / ".rapt/logs/dvc repro.log").read_text()
    assert "up to date" in toy.flow().stderr


def test_a_broken_cell_stops_only_what_depends_on_it(toy: Toy, expected: dict[str, str]) -> None:
    """Another finds the disk full as it writes, and its partial out does not count."""
    flags = [toy.flag("break-1-b"), toy.flag("fill-2-b")]
    done = toy.flow()
    assert done.returncode == 1
    assert "no luck with 1-b" in done.stderr and "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("failed: cell@1-b, cell@2-b; skipped")
    assert toy.names() == [name for name in EVERY_STAGE if name != "report"]
    assert not (toy.root / "dvc.lock").exists()
    assert not list(toy.root.glob("reports/cells/*.txt"))
    assert toy.leftovers() == []

    for flag in flags:
        flag.unlink()
    assert toy.flow().returncode == 0
    assert toy.outcome() == expected
    assert toy.names() == sorted([*EVERY_STAGE, "1-b", "2-b"])  # the others stayed cached


def test_a_slot_runs_its_own_snapshot(done: Toy) -> None:
    """What is upstream and up to date, by the committed dvc.lock, doesn't run again."""
    toy, before = done, len(done.ran())
    head, index = toy.git("rev-parse", "HEAD"), toy.git("diff", "--cached")
    (toy.root / "rapt/mark.py").write_text('MARK = "second"\n')

    assert toy.flow().returncode == 0
    assert (toy.root / "reports/cells/1-a.txt").read_text() == "1-a second"
    ran = toy.ran()[before:]
    assert sorted(name for name, *_ in ran) == [n for n in EVERY_STAGE if n != "validate"]
    slots = {Path(folder).relative_to(toy.root).parent for *_, folder in ran}
    assert slots == {Path(".rapt/slots")}
    assert (toy.git("rev-parse", "HEAD"), toy.git("diff", "--cached")) == (head, index)
    assert (toy.root / "rapt/mark.py").read_text() == 'MARK = "second"\n'


def test_kill_nine_leaves_nothing_running_and_the_next_start_completes(
    toy: Toy, expected: dict[str, str], prefect_home: Path
) -> None:
    flags = [toy.flag("wait-1-a"), toy.flag("wait-1-b")]
    flow = toy.without_server(prefect_home).start()
    wait_until(lambda: {"1-a", "1-b"} <= set(toy.names()))
    refused = toy.flow()
    assert refused.returncode == 2
    assert f"already running in this workspace (pid {flow.pid}, since" in refused.stderr

    children = started_by(flow, toy)
    flow.kill()
    flow.communicate(timeout=PATIENCE)
    wait_until(lambda: not any(map(alive, children)), 10)
    assert toy.leftovers() != []
    assert not (toy.root / "dvc.lock").exists()

    for flag in flags:
        flag.unlink()
    assert toy.flow().returncode == 0
    assert toy.outcome() == expected
    assert toy.leftovers() == []
    assert toy.names().count("validate") == 1


def test_ctrl_c_lets_what_runs_end_and_starts_nothing_more(
    toy: Toy, expected: dict[str, str]
) -> None:
    toy.flag("wait-2-b")
    flags = [toy.flag("wait-1-a"), toy.flag("wait-1-b")]
    before = toy.git("status", "--porcelain")
    flow = toy.start()
    wait_until(lambda: {"1-a", "1-b"} <= set(toy.names()))
    os.killpg(flow.pid, signal.SIGINT)  # as the terminal's Ctrl-C does
    for flag in flags:
        flag.unlink()
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == 1
    assert "Ctrl-C again" in output
    assert output.strip().splitlines()[-1].startswith("interrupted")
    assert toy.names() == ["1-a", "1-b", "validate"]
    assert_untouched(toy, before)

    toy.flag("wait-2-b").unlink()
    assert toy.flow().returncode == 0
    assert toy.outcome() == expected
    assert toy.names() == EVERY_STAGE  # those that ended were kept


@pytest.mark.parametrize(
    ("signals", "code", "last"),
    [([signal.SIGINT] * 2, 1, "interrupted"), ([signal.SIGTERM], -signal.SIGTERM, "")],
)
def test_ctrl_c_twice_or_a_request_to_end_stops_at_once_and_changes_nothing(
    toy: Toy, prefect_home: Path, signals: list[int], code: int, last: str
) -> None:
    """Two stages run that would not end by themselves."""
    toy.flag("wait-1-a")
    toy.flag("wait-1-b")
    before = toy.git("status", "--porcelain")
    flow = (toy.without_server(prefect_home) if last else toy).start()
    wait_until(lambda: {"1-a", "1-b"} <= set(toy.names()))
    children = started_by(flow, toy)
    for number in signals:
        os.killpg(flow.pid, number)
        time.sleep(0.2)  # two that are pending at once are one
    output = flow.communicate(timeout=PATIENCE)[0]
    assert flow.returncode == code
    assert "Traceback" not in output
    assert not last or output.strip().splitlines()[-1].startswith(last)
    wait_until(lambda: not any(map(alive, children)), 10)
    assert_untouched(toy, before)


def assert_untouched(toy: Toy, status: str) -> None:
    assert toy.leftovers() == []
    assert toy.git("status", "--porcelain") == status
    assert not (toy.root / "dvc.lock").exists()


def started_by(flow: subprocess.Popen[str], toy: Toy) -> list[int]:
    """Everything below the flow: dvc and stages, and Prefect's server where it has its own."""
    children = [child.pid for child in psutil.Process(flow.pid).children(recursive=True)]
    waiting = {int(pid) for name, pid, _ in toy.ran() if name in ("1-a", "1-b")}
    assert waiting <= set(children)
    return children


def test_a_flow_in_hard_places(
    tmp_path: Path, expected: dict[str, str], prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the top of a linked worktree of a shallow clone, whose path DVC's config could misread.

    The environment has a proxy and a Prefect profile whose servers are gone, and no home.
    """
    made = make(tmp_path / "made/sub", "")
    shutil.move(made.root / ".git", tmp_path / "made/.git")
    (tmp_path / "made/README").touch()
    Toy(tmp_path / "made", "").commit()
    clone = tmp_path / "a clone, #1 %(x)s"
    origin = f"file://{tmp_path}/made"
    for command in (
        ["git", "clone", "-q", "--depth", "1", origin, str(clone)],
        ["git", "-C", str(clone), "worktree", "add", "-q", str(clone / "linked")],
    ):
        subprocess.run(command, check=True)
    toy = Toy(clone / "linked/sub", "", prefect_home)
    (toy.root / ".rapt").mkdir()
    (prefect_home / "profiles.toml").write_text(
        'active = "cloud"\n[profiles.cloud]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    )
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", "/proc/none")
    for name in ("NO_PROXY", "no_proxy", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    done = toy.flow()
    (prefect_home / "profiles.toml").unlink()
    assert not done.returncode, done.stdout + done.stderr
    assert toy.outcome() == expected
    assert toy.leftovers()[1:] == []  # the linked worktree itself is one
