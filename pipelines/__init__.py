"""Prefect flows: the DVC graph, in parallel."""

import getpass
import os
from pathlib import Path

from rapt.paths import STATE
from rapt.utils.process import no_telemetry

# Before Prefect is imported: it reads its settings then.
no_telemetry()
# The terminal belongs to the progress lines. Prefect's server is told states, never what a stage
# printed: that lies in .rapt/logs, and it is nobody else's.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")

# A user of a container may have no home, or none to write to, and no name. Prefect asks for all.
if not os.environ.get("HOME"):
    os.environ.pop("HOME", None)  # an empty one is not looked up
if not os.access(os.path.expanduser("~"), os.W_OK):
    os.environ["HOME"] = str(Path(STATE, "home").absolute())
    os.environ.setdefault("PREFECT_HOME", str(Path(STATE, "prefect").absolute()))
try:
    getpass.getuser()
except (KeyError, OSError):
    os.environ["USER"] = "rapt"
