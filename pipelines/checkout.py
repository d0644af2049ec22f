"""Checkouts of a commit that share DVC's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from configobj import ConfigObj

from pipelines.cache import forget_lost
from rapt.utils.errors import RaptError

# `python` in the stages' commands is the interpreter that runs this.
PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
INSTEAD = (
    "A flow's stages run in checkouts of it. Next: git init, git add, git commit; or run dvc "
    "repro, one stage at a time."
)
_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "rapt"), ("EMAIL", "rapt@localhost"))
}


def git(root: Path, *arguments: str, check: bool = True) -> str:
    """Run git in `root` and return its output; where it failed, an error if `check` is set."""
    # Without hooks: that of `dvc install` would check everything out into a new worktree.
    try:
        done = subprocess.run(
            ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
            cwd=root,
            env=os.environ | _IDENTITY | {"LC_ALL": "C"},  # messages are compared below
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise RaptError(f"git: got no such program, expected it. {INSTEAD}") from None
    if check and "not a git repository" in done.stderr:
        raise RaptError(f"git: got no repository at {root}, expected one. {INSTEAD}")
    if check and done.returncode:
        raise RaptError(
            f"git {arguments[0]}: got an error, expected none. Its message: "
            f"{' '.join(done.stderr.split())}"
        )
    return done.stdout.strip()


def tree(root: Path, commit: str) -> str:
    """Name the project's files in a commit, though it lies below the top of its repository."""
    return f"{commit}:{git(root, 'rev-parse', '--show-prefix').rstrip('/')}"


def head(root: Path) -> str:
    """Return the last commit.

    Raises:
        RaptError: there is none.
    """
    if commit := git(root, "rev-parse", "--verify", "--quiet", "HEAD", check=False):
        return commit
    git(root, "rev-parse", "--git-dir")  # says if there is no repository
    raise RaptError(f"git: got no commit in {root}, expected one. {INSTEAD}")


def worktree(root: Path, path: Path, commit: str, cache: Path) -> Path:
    """Make `path` a worktree of the repository at `commit`, where DVC uses `cache`.

    Returns:
        the project's folder in it: the project at `root` may lie below the top of its repository.
    """
    git(root, "worktree", "add", "--detach", "--force", "--force", str(path), commit)
    project = path / git(root, "rev-parse", "--show-prefix")
    if not (project / ".dvc").is_dir():
        raise RaptError(
            f"git: got no .dvc of {root} in its commit, expected what dvc init made. Next: git add "
            ".dvc, then git commit."
        )
    use_cache(project, cache)
    forget_lost(project / "dvc.lock", cache)
    return project


def use_cache(path: Path, cache: Path) -> None:
    """Have DVC in the checkout `path` use `cache`."""
    config = ConfigObj(encoding="utf-8")
    # Relative, as DVC fills in what looks like a variable: the project's path may have a %(name)s.
    relative = os.path.relpath(cache.resolve(), (path / ".dvc").resolve())
    # Links save copies. DVC removes a stage's outs before it runs, so no write goes through one.
    config["cache"] = {"dir": relative, "type": ["reflink", "hardlink", "copy"]}
    with (path / ".dvc/config.local").open("wb") as file:
        config.write(file)


def environment(folder: Path, home: Path) -> dict[str, str]:
    """Return the environment of stages that run the code in `folder` for the project at `home`."""
    # An empty entry would mean the working folder.
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "RAPT_HOME": str(home),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def forget_others(path: Path) -> None:
    """Delete DVC's lock record of the checkout `path`, which nobody else uses.

    A DVC process that was killed as it wrote the record leaves a part, which DVC cannot read.
    """
    (path / ".dvc/tmp/rwlock").unlink(missing_ok=True)
