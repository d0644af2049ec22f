"""Prefect flows: the DVC graph, in parallel."""

import getpass
import os
from contextlib import suppress
from pathlib import Path

from rapt.paths import STATE
from rapt.utils.process import no_telemetry

# Before Prefect is imported: it reads its settings then.
no_telemetry()
# The terminal belongs to the progress lines. Prefect's server is told states, never what a stage
# printed: that lies in .rapt/logs, and it is nobody else's.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")


def _home() -> Path | None:
    """Return the user's home, None if there is none."""
    with suppress(RuntimeError):
        return Path.home() if os.environ.get("HOME") != "" else None
    return None


def _fill_in() -> None:
    """Name what Prefect and DVC look for in the user's home and in passwd, and is not there.

    A container's user may have neither, or a home that cannot be written.
    """
    state, home = STATE.absolute(), _home()
    if home is None:
        os.environ.setdefault("HOME", "")  # of which Prefect makes a path that it never uses
        os.environ.setdefault("XDG_CONFIG_HOME", str(state / "config"))
    prefect = home and home / ".prefect"
    if not prefect or not os.access(prefect if prefect.exists() else prefect.parent, os.W_OK):
        os.environ.setdefault("PREFECT_HOME", str(state / "prefect"))
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())


_fill_in()
