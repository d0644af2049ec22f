"""Errors that a user can act on: one line, what was got, what is expected, the nearest match."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

# The requirement on a path and the remedy, by the system's error.
PERMISSION = "a place that you may read and write. Change its permissions, or choose another"
ROOM = "room on its disk. Free some, then start again"
OF_DISK = {
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EROFS: PERMISSION,
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.ENOLCK: "a disk with file locks, which some network disks lack. Choose another",
}


class RaptError(Exception):
    """An error that the user can fix; its one-line message never contains text of a data set."""


def described(error: Exception) -> str:
    """Describe any error in one line: a `RaptError` by its message, others by class and message.

    The message alone may be a bare name, as that of a KeyError is.
    """
    line = " ".join(str(error).split())
    if isinstance(error, RaptError):
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def one_of(allowed: Iterable[str]) -> str:
    """Format the allowed names as they follow `expected` in a message."""
    names = sorted(allowed)
    return f"{'one of ' if len(names) > 1 else ''}{', '.join(names) or 'nothing'}"


def not_allowed(key: str, got: object, allowed: Iterable[str]) -> str:
    """Format the message for a name that is not allowed."""
    names = list(allowed)
    nearest = get_close_matches(str(got), sorted(names), n=1, cutoff=0.4)
    return f"{key}: got {got!r}, expected {one_of(names)}.{did_you_mean(nearest)}"


def did_you_mean(nearest: Sequence[str]) -> str:
    """End the line for a wrong name: the nearest of those allowed, where one is near."""
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def wrong_eta(got: object) -> str:
    """Format the message, after the key, for a privacy parameter that is not a number above 0."""
    shown = f"{got:g}" if isinstance(got, float) else "none" if got is None else repr(got)
    return f"got {shown}, expected a number above 0, as 75 or 62.5. Find one by rapt calibrate."


def check_place(key: str, path: Path) -> None:
    """Refuse a path in a folder that does not exist: a typo would make folders.

    Raises:
        RaptError: the option, the path, and its folder.
    """
    if not path.parent.is_dir():
        raise RaptError(
            f"{key}: got {str(path)!r}, expected a path in a folder that exists. Make "
            f"{path.parent}, or correct the path."
        )


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of permission or of a full disk into one-line errors.

    Raises:
        RaptError: the path, what was got, what is expected, what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in OF_DISK:
            raise
        where = Path(error.filename).absolute() if error.filename else "disk"
        got = (error.strerror or "").lower()
        raise RaptError(f"{where}: got {got}, expected {OF_DISK[error.errno]}.") from error
