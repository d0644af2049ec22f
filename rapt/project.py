"""`rapt new`: a project of one's own, from the files that stand beside this package.

Its code lies in it, the library's too: DVC reruns a stage when its code changes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from configparser import ConfigParser
from pathlib import Path

# From the top of the repository. setup.py reads this list, and lays them into the wheel.
FILES = (
    ".dvc/.gitignore",
    ".dvc/config",
    ".dvc/plots",
    ".dvcignore",
    ".gitignore",
    "data/.gitignore",
    "dvc.yaml",
    "models/.gitignore",
    "params.schema.json",
    "params.yaml",
    "pipelines",
    "prefect.toml",
    "prefect.yaml",
    "presets",
    "reports/.gitignore",
    "requirements.lock",
    "stages",
)
PACKAGE = Path(__file__).parent
IN_WHEEL = "template"


def template() -> Path:
    """Where the files of a project lie: in the installed package, or at the top of a clone."""
    installed = PACKAGE / IN_WHEEL
    return installed if installed.is_dir() else PACKAGE.parent


def copy(root: Path, to: Path) -> None:
    """Copy the files of a project."""
    for name in FILES:
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(root / name, path)


def remotes(root: Path) -> list[str]:
    """The names of a project's DVC remotes, from its configuration."""
    config = ConfigParser(interpolation=None, strict=False)
    config.read([root / ".dvc/config", root / ".dvc/config.local"])
    return re.findall(r'remote "([^"]+)"', "\n".join(config.sections()))


def new(folder: Path) -> None:
    """Make a project: params.yaml, dvc.yaml, the stages and the library, in a Git repository."""
    from rapt.utils.errors import RaptError  # not above: setup.py reads only this file

    if folder.exists():
        raise RaptError(f"FOLDER: got {str(folder)!r}, expected a folder that does not exist yet.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".rapt-", dir=folder.parent) as scratch:
            made = Path(scratch, folder.name)
            copy(template(), made)
            left_out = shutil.ignore_patterns("__pycache__", IN_WHEEL)
            shutil.copytree(PACKAGE, made / "rapt", ignore=left_out)
            subprocess.run(["git", "init", "--quiet", made], check=True)
            made.rename(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "strerror", None) or "git init failed"
        raise RaptError(
            f"FOLDER: got {str(folder)!r} ({reason}), expected one that can be made."
        ) from None
