"""Checkouts of a commit that share DVC's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipelines.cache import forget_lost
from rapt.utils.errors import RaptError

DVC = (sys.executable, "-m", "dvc")
# `python` in the stages' commands is the interpreter that runs this.
PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
# Parts of git's messages where there is no commit to run.
NO_COMMIT = ("not a git repository", "do not have the initial commit")
_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "rapt"), ("EMAIL", "rapt@localhost"))
}


def git(root: Path, *arguments: str, check: bool = True) -> str:
    """Run git in `root` and return its output; where it failed, an error if `check` is set."""
    try:
        # Without hooks: that of `dvc install` would check everything out into a new worktree.
        done = subprocess.run(
            ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
            cwd=root,
            env=os.environ | _IDENTITY | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise RaptError("git: got none, expected it installed: a flow runs from it.") from None
    if check and done.returncode:
        if any(words in done.stderr for words in NO_COMMIT):
            raise RaptError(
                f"{root}: got no git repository with a commit, expected one, as each stage of a "
                "flow runs in a checkout of it. Next: git init; git add -A; git commit -m Begin"
            )
        raise RaptError(
            f"git {arguments[0]}: got an error, expected none. Its message: "
            f"{' '.join(done.stderr.split())}"
        )
    return done.stdout.strip()


def tree(root: Path, commit: str) -> str:
    """Name the project's files in a commit; the project may lie below the top of its repository."""
    return f"{commit}:{git(root, 'rev-parse', '--show-prefix').rstrip('/')}"


def worktree(root: Path, path: Path, commit: str, cache: Path) -> None:
    """Make `path` a worktree of the project at `root`, at `commit`, where DVC uses `cache`.

    Of a project below the top of its repository, it holds the project's files alone.
    """
    if not (files := tree(root, commit)).endswith(":"):
        commit = git(root, "commit-tree", files, "-m", "rapt", "-m", commit)
    git(root, "worktree", "add", "--detach", "--force", "--force", str(path), commit)
    use_cache(path, cache)
    forget_lost(path / "dvc.lock", cache)


def use_cache(path: Path, cache: Path) -> None:
    """Have DVC in the checkout `path` use `cache`, by a link where it lies elsewhere."""
    link = path / ".dvc/cache"
    if link != cache:  # whose path could hold what DVC's configuration takes for its syntax
        cache.mkdir(parents=True, exist_ok=True)
        link.symlink_to(cache, target_is_directory=True)
    # Links save copies. DVC removes a stage's outs before it runs, so no write goes through one.
    local = "[cache]\n    dir = cache\n    type = reflink,hardlink,copy\n"
    (path / ".dvc/config.local").write_text(local)


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
