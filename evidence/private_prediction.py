"""What private prediction costs: `python -m evidence.private_prediction`.

The answers of ten teachers to each test text are in evidence/private-prediction, with the command
that made them. evidence/private-prediction.md says what follows.

Of two classes the probability of the right answer is known, given the votes: that a difference of
two Gaussians is smaller than that of the votes. So no noise is drawn here, and the accuracy is the
mean over all draws.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from rapt import params
from rapt.analysis.intervals import mean_interval, of_accuracy
from rapt.results import table
from rapt.results.predictions import Predictions
from rapt.serving.private_prediction import PrivatePrediction, votes
from rapt.utils import files

FOLDER = Path("evidence/private-prediction")
OUT = Path("evidence/private_prediction.json")
EPSILONS, QUERIES, DELTA = (8, 3, 1), (10, 100, 1000), 1e-4

Numbers = NDArray[np.float64]


def cell(answers: Predictions) -> dict[str, Any]:
    """Return the accuracy of one teacher, of the vote, and of noisy votes by queries and ε."""
    right = answers.right
    for_right = right.sum(axis=0)
    lead = (2 * for_right - len(right)).astype(np.float64)  # of the right class over the other
    most = np.maximum(for_right, len(right) - for_right) / len(right)
    low, high = of_accuracy(right)
    found: dict[str, Any] = {
        "teacher": {"mean": float(right.mean()), "low": low, "high": high},
        "vote": over_texts((np.sign(lead) + 1) / 2),  # a draw is right every other time
        "agreement": over_texts(most),
    }
    for queries in QUERIES:
        found[f"{queries}"] = {
            f"{epsilon}": over_texts(chance(lead, noise(epsilon, queries))) for epsilon in EPSILONS
        }
    return found


def noise(epsilon: float, queries: int) -> float:
    """Return the noise of each class' votes."""
    law = votes(PrivatePrediction(epsilon=epsilon, queries=queries, delta=DELTA))
    assert law.noise is not None
    return law.noise


def chance(lead: Numbers, noise: float) -> Numbers:
    """Return the probability that the class wins which leads by so many votes (n,)."""
    return np.asarray(norm.cdf(lead / (noise * np.sqrt(2))))


def over_texts(values: Numbers) -> dict[str, float]:
    """Return the mean over the test texts, with its 95 % interval."""
    mean = float(values.mean())
    low, high = mean_interval(values, np.ones(len(values), np.int64), np.array([mean]))
    return {"mean": mean, "low": low, "high": high}


def figures() -> dict[str, Any]:
    """Return all figures of the page."""
    results = table.read(params.load(FOLDER / "params.yaml"), FOLDER / "cells.csv")
    cells = {
        one.plan.cell: cell(one.predictions["test"]) for one in results.of("train") if one.content
    }
    # Rounded, as processors differ in the last digits.
    noises = {f"{t}": {f"{e}": round(noise(e, t), 6) for e in EPSILONS} for t in QUERIES}
    return {"cells": cells, "noise": noises}


if __name__ == "__main__":
    files.write_json(OUT, figures())
