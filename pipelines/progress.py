"""Terminal output of a running flow: a line for each stage as it ends."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from pipelines.schedule import Remaining, Schedule
from pipelines.served import CommandError

# Plain lines, even if they are wider than the terminal or go to a file.
console = Console(stderr=True, highlight=False, soft_wrap=True)


def show_end(schedule: Schedule, name: str, outcome: str) -> None:
    """Print the flow's progress, the stage that ended, its outcome and the remaining time."""
    total, ended = len(schedule.plan), len(schedule.done) + len(schedule.failed)
    count = f"{ended:{len(str(total))}} of {total}"
    left = remaining_text(schedule.remaining()) if ended < total else ""
    columns = [count, name.replace("@", " ", 1), outcome, left]
    console.print("  ".join(filter(None, columns)), markup=False)


def show_running(schedule: Schedule) -> None:
    """Print what runs, for how long, and the remaining time, where no stage ends for a while."""
    now = time.monotonic()
    running = [
        f"{name.replace('@', ' ', 1)} {span(now - started)}"
        for name, (_, started) in schedule.running.items()
    ]
    if running:
        columns = [f"running: {', '.join(running)}", remaining_text(schedule.remaining())]
        console.print("  ".join(filter(None, columns)), markup=False)


def remaining_text(remaining: Remaining) -> str:
    """Format as `about 3 min left`, or as `at least 3 min left` for a lower bound."""
    if remaining.at_least:
        return f"at least {span(remaining.seconds)} left" if remaining.seconds >= 1 else ""
    return f"about {span(remaining.seconds)} left"


def span(seconds: float) -> str:
    """Format seconds in a suitable unit: seconds, minutes, or hours and minutes."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def show(error: CommandError) -> None:
    """Print a failed command's error and the end of its log."""
    console.print(f"{error}; the whole log: {error.log.relative_to(Path.cwd())}", style="red")
    console.print(error.tail(), markup=False)
