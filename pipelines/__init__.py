"""Prefect flows: the DVC graph, in parallel."""

import os

from rapt.utils.process import no_proxy_on_loopback, no_telemetry

# Before Prefect is imported: it reads its settings then.
no_telemetry()
no_proxy_on_loopback()
# The terminal belongs to the progress lines. Prefect's server is told states, never what a stage
# printed: that lies in .rapt/logs, and it is nobody else's.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
