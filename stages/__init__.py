"""One thin module for each DVC stage: read params, call rapt, write the outs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from rapt.paths import FLOW_LOCK
from rapt.utils.device import memory_errors
from rapt.utils.errors import RaptError, disk_errors
from rapt.utils.process import beside_no_flow, die_with_parent, no_telemetry

no_telemetry()  # before a stage imports its libraries, some of which read their settings then


def run(main: Callable[..., None]) -> None:
    """Run a stage's main; an error that the user can fix is one line and status 2."""
    die_with_parent()
    app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    app.command()(main)
    try:
        with disk_errors(), memory_errors(), beside_no_flow(FLOW_LOCK):
            app(standalone_mode=False)
    except RaptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
