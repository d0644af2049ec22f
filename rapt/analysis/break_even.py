"""How many labels of one's own a model is worth: at how many a local model is as accurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from rapt.results.cells import Metric

PREFIX = "accuracy_with_"


class Learning(NamedTuple):
    """The accuracy of a local model by its number of labels, in ascending order.

    Attributes:
        labels: how many.
        accuracy: with its 95 % interval.
    """

    labels: Sequence[int]
    accuracy: Sequence[Metric]


def learning(metrics: Mapping[str, Metric], rows: int) -> Learning | None:
    """Return the curve of a local model's cell; None: it has none.

    Args:
        metrics: of the cell.
        rows: that its own accuracy rests on.
    """
    found = {
        int(name.removeprefix(PREFIX)): m for name, m in metrics.items() if name.startswith(PREFIX)
    }
    if not found or "accuracy" not in metrics:
        return None
    found[rows] = metrics["accuracy"]
    labels = sorted(found)
    return Learning(labels, [found[n] for n in labels])


def break_even(curve: Learning, model: Metric) -> tuple[float, float, float]:
    """Return the labels with which a local model is as accurate, and their interval.

    0: it is so with the fewest that were tried. Infinite: not even with the most. Between those
    tried the accuracy is a straight line over the logarithm of the labels, and it never falls. The
    interval is wide: it begins where the curve's upper ends reach the model's lower one, and ends
    where the lower ends reach the upper one.
    """

    def reached(ends: Sequence[float | None], wanted: float | None) -> float:
        known = np.array([np.nan if end is None else end for end in ends], np.float64)
        if wanted is None or np.isnan(known).any():
            return float("nan")
        rising = isotonic_regression(known).x
        if wanted <= rising[0]:
            return 0.0
        if wanted > rising[-1]:
            return float("inf")
        after = int(np.argmax(rising >= wanted))
        part = (wanted - rising[after - 1]) / (rising[after] - rising[after - 1])
        low, high = np.log(curve.labels[after - 1 : after + 1])
        return float(np.exp(low + part * (high - low)))

    return (
        reached([point.mean for point in curve.accuracy], model.mean),
        reached([point.high for point in curve.accuracy], model.low),
        reached([point.low for point in curve.accuracy], model.high),
    )
