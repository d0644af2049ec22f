"""Prefect flows: the DVC graph, in parallel."""

import os

from rapt.process import no_telemetry

# Before Prefect is imported: it reads its settings then.
no_telemetry()
# The terminal belongs to the progress lines; Prefect's server keeps the log of every run.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
