"""Prefect flows: the DVC graph, in parallel."""

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


def _has_prefect_home() -> bool:
    """Whether Prefect can keep its database in the user's home."""
    with suppress(RuntimeError):  # no home, as of a container's user without an entry in passwd
        folder = Path.home() / ".prefect"
        return os.access(folder if folder.exists() else folder.parent, os.W_OK)
    return False


if not _has_prefect_home():
    os.environ.setdefault("PREFECT_HOME", str(Path(STATE, "prefect").absolute()))
