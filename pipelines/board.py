"""What the terminal shows while a flow runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.schedule import Remaining, Schedule
from pipelines.slots import CommandError

console = Console(stderr=True, highlight=False)


class Board:
    """One progress line for each kind of stage, and one for all with the time that is left."""

    def __init__(self, schedule: Schedule) -> None:
        """Lay out the lines of the schedule's plan."""
        self._schedule = schedule
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
        )
        kinds = Counter(stage.kind for stage in schedule.plan.values())
        self._lines = {
            kind: self.progress.add_task(kind, total=total, start=False, state="")
            for kind, total in kinds.items()
        }
        self._all = self.progress.add_task("all", total=len(schedule.plan), state="")

    def show(self) -> None:
        """Bring the lines up to the schedule."""
        plan, schedule = self._schedule.plan, self._schedule
        done = Counter(plan[name].kind for name in schedule.done)
        running = Counter(plan[name].kind for name in schedule.running)
        for kind, line in self._lines.items():
            if running[kind] or done[kind]:
                self.progress.start_task(line)
            state = f"{running[kind]} running" if running[kind] else ""
            self.progress.update(line, completed=done[kind], state=state)
        left = remaining_text(schedule.remaining())
        self.progress.update(self._all, completed=len(schedule.done), state=left)


def remaining_text(remaining: Remaining) -> str:
    """`about 3 min left`; where not all is known, `at least`."""
    if remaining.at_least:
        return f"at least {_span(remaining.seconds)} left" if remaining.seconds >= 1 else ""
    return f"about {_span(remaining.seconds)} left"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def show(error: CommandError) -> None:
    """Show the end of a failed command's log."""
    console.print(f"{error}; the whole log: {error.log.relative_to(Path.cwd())}", style="red")
    console.print(error.tail(), markup=False)
