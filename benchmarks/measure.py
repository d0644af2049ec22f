"""Timing, and what a figure is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

Figure = dict[str, Any]

# The threads of a matrix product wait for the next one, busily, for some 30 ms.
SETTLE = 0.1


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def interleaved(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each, in turns, so that what else the machine does falls on all; one warm-up."""
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(SETTLE)
            taken[name].append(seconds(run, clock))
    return taken


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the ratios within each round."""
    return median(a / b for a, b in zip(over, under, strict=True))


def figure(
    name: str,
    value: float | None,
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Figure:
    """A measured value, with its target and whether it is met where it has one.

    None: it cannot be measured on this machine.
    """
    if value is None:
        print(f"{name:62}       null {unit}", flush=True)
        return {"name": name, "value": None, "unit": unit, "target": None, "met": None}
    target = least if most is None else most
    met = None
    if target is not None:
        met = value >= target if most is None else value <= target
    bound = None if target is None else f"{'>=' if most is None else '<='} {target:g}"
    shown = "" if met is None else f"   target {bound}: {'met' if met else 'MISSED'}"
    print(f"{name:62} {value:10.4g} {unit}{shown}", flush=True)
    return {"name": name, "value": round(value, 4), "unit": unit, "target": bound, "met": met}


def memory(field: str) -> float:
    """MiB of this process (Linux): VmHWM, the most it had, or VmRSS, what it has now."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024
