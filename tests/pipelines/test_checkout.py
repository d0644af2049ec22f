"""Checkouts of a project: their commit, their cache and the environment of their stages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipelines import checkout, graph
from rapt.utils.errors import RaptError


def test_a_worktree_has_the_commit_and_the_projects_cache(tmp_path: Path) -> None:
    folder = tmp_path / "a #b, %(c)s"  # which DVC's configuration takes for its syntax
    root, path, cache = folder / "root", folder / "slot", folder / "cache"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").touch()
    checkout.git(root, "init", "-q")
    checkout.git(root, "add", ".")
    checkout.git(root, "commit", "-qm", "Begin")
    commit = checkout.git(root, "rev-parse", "HEAD")
    for _ in range(2):  # again over what a killed flow left
        checkout.worktree(root, path, commit, cache)
        assert checkout.git(path, "rev-parse", "HEAD") == commit
        assert graph.cache_dir(path) == cache
        shutil.rmtree(path)


def test_a_worktree_of_a_project_in_a_larger_repository_has_its_files_alone(tmp_path: Path) -> None:
    top, path, cache = tmp_path / "top", tmp_path / "slot", tmp_path / "cache"
    root = top / "in/here"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").touch()
    (top / "other").touch()
    checkout.git(top, "init", "-q")
    checkout.git(top, "add", ".")
    checkout.git(top, "commit", "-qm", "Begin")
    commit = checkout.git(root, "rev-parse", "HEAD")
    checkout.worktree(root, path, commit, cache)
    assert sorted(one.name for one in path.iterdir()) == [".dvc", ".git"]
    assert checkout.git(path, "log", "-1", "--format=%b") == commit
    assert checkout.tree(root, commit) == f"{commit}:in/here"


def test_what_git_says_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = r"^[^\n]*: got no git repository with a commit, expected one[^\n]*$"
    with pytest.raises(RaptError, match=without):
        checkout.git(tmp_path, "rev-parse", "HEAD")
    assert checkout.git(tmp_path, "rev-parse", "HEAD", check=False) == ""
    checkout.git(tmp_path, "init", "-q")
    with pytest.raises(RaptError, match=without):
        checkout.git(tmp_path, "stash", "create")
    with pytest.raises(RaptError, match=r"^git show: got .* Its message: fatal: [^\n]*$"):
        checkout.git(tmp_path, "show", "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RaptError, match=r"^git: got none, expected it installed"):
        checkout.git(tmp_path, "status")


def test_a_checkouts_code_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, paths in (("", ["slot"]), ("mine", ["slot", "mine"])):
        monkeypatch.setenv("PYTHONPATH", given)
        found = checkout.environment(Path("slot"), tmp_path)
        assert found["PYTHONPATH"].split(os.pathsep) == paths
        assert found["RAPT_HOME"] == str(tmp_path)


def test_a_lock_record_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    record = tmp_path / ".dvc/tmp/rwlock"
    record.parent.mkdir(parents=True)
    record.touch()
    for _ in range(2):
        checkout.forget_others(tmp_path)
        assert not record.exists()
