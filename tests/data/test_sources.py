"""Files of a task as they lie: missing, changed, and where their paths start."""

from pathlib import Path

import pytest

from rapt.data.prepare import prepare
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.data.conftest import make_task, write


def test_a_missing_file_and_a_wrong_hash() -> None:
    with pytest.raises(RaptError, match=r"^a\.csv: got No such file"):
        prepare("a", make_task({"all": "a.csv"}), 0)
    write("a.csv", ["text", "a", "b"])
    found = files.sha256("a.csv")
    task = make_task({"all": "a.csv"}, sha256={"all": "0" * 64})
    with pytest.raises(RaptError) as error:
        prepare("a", task, 0)
    assert str(error.value) == (
        f"a.csv: got sha256 {found}, expected {'0' * 64}. It changed since it was entered: "
        "restore it, or correct sha256.all of its task."
    )
    prepared = prepare("a", make_task({"all": "a.csv"}, sha256={"all": found}), 0)
    assert prepared.summary["source"]["sha256"] == {"all": found}


def test_paths_start_at_the_main_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.csv", ["text", "a", "b"])
    slot = tmp_path / "slot"
    slot.mkdir()
    monkeypatch.chdir(slot)
    monkeypatch.setenv("RAPT_HOME", str(tmp_path))
    assert prepare("a", make_task({"all": "a.csv"}), 0).summary["read"] == 2
