"""Checkouts of a project: their commit, their cache and the environment of their stages."""

import shutil
from pathlib import Path

import pytest
from dvc.config import Config

from pipelines import checkout
from rapt.utils.errors import RaptError


@pytest.mark.parametrize("below", ["", "a project, #1 %(x)s/of many"])
def test_a_worktree_has_the_commit_and_the_projects_cache(tmp_path: Path, below: str) -> None:
    top = tmp_path / "top"
    root = top / below
    path, cache = root / ".rapt/slots/0", root / ".dvc/cache"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").touch()
    (root / ".dvc/tmp").mkdir()
    checkout.git(top, "init", "-q")
    checkout.git(top, "add", ".")
    checkout.git(top, "commit", "-qm", "Begin")
    commit = checkout.head(root)
    for _ in range(2):  # again over what a killed flow left
        project = checkout.worktree(root, path, commit, cache)
        assert project == path / below
        published = checkout.tree(root, commit)  # without what lies around the project
        assert checkout.git(root, "ls-tree", "--full-tree", "--name-only", published) == ".dvc"
        assert checkout.git(path, "rev-parse", "HEAD") == commit
        config = Config(str(project / ".dvc"), validate=False)
        assert Path(config["cache"]["dir"]).resolve() == cache
        shutil.rmtree(path)


def test_without_git_or_a_commit_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RaptError, match=r"^git: got no repository at [^\n]* Next: git init, "):
        checkout.head(tmp_path)
    assert checkout.git(tmp_path, "rev-parse", "HEAD", check=False) == ""
    checkout.git(tmp_path, "init", "-q")
    with pytest.raises(RaptError, match=r"^git: got no commit in [^\n]*$"):
        checkout.head(tmp_path)
    with pytest.raises(RaptError, match=r"^git checkout: got an error, [^\n]*pathspec[^\n]*$"):
        checkout.git(tmp_path, "checkout", "nowhere")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RaptError, match=r"^git: got no such program, expected it\."):
        checkout.head(tmp_path)


@pytest.mark.parametrize(("given", "paths"), [("", "slot"), ("mine", "slot:mine")])
def test_a_checkouts_code_comes_first(
    monkeypatch: pytest.MonkeyPatch, given: str, paths: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", given)
    found = checkout.environment(Path("slot"), Path("main"))
    assert found == {"RAPT_HOME": "main", "PYTHONHASHSEED": "0", "PYTHONPATH": paths}


def test_a_lock_record_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    record = tmp_path / ".dvc/tmp/rwlock"
    record.parent.mkdir(parents=True)
    record.touch()
    for _ in range(2):
        checkout.forget_others(tmp_path)
        assert not record.exists()
