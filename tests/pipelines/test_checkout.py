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


def test_what_git_says_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        RaptError, match=r"^git rev-parse: got .* Its message: fatal: not a git repository[^\n]*$"
    ):
        checkout.git(tmp_path, "rev-parse", "HEAD")
    assert checkout.git(tmp_path, "rev-parse", "HEAD", check=False) == ""


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
