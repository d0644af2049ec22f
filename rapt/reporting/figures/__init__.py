"""The figures of the report, a module for each subject."""

from __future__ import annotations

from rapt.reporting import tables
from rapt.reporting.figures.curves import accuracy_curves, privacy_curves
from rapt.reporting.figures.drawing import Figure
from rapt.reporting.figures.layers import hidden_states
from rapt.reporting.figures.mechanisms import calibrations, deniabilities, geometries
from rapt.reporting.figures.settings import settings
from rapt.reporting.figures.trade_offs import trade_offs
from rapt.reporting.figures.training import trainings
from rapt.results.reader import Results

__all__ = ["Figure", "figures"]


def figures(results: Results) -> list[Figure]:
    """Every figure for which there is data."""
    utility, privacy = tables.utility(results), tables.privacy(results)
    return [
        *trade_offs(utility, privacy),
        *accuracy_curves(utility),
        *privacy_curves(privacy, results.params.sweep.methods),
        *calibrations(results),
        *deniabilities(results),
        *geometries(results),
        *hidden_states(results),
        *trainings(results),
        *settings(results),
    ]
