"""What private prediction costs: evidence/private_prediction.py."""

import json

import numpy as np
import pandas as pd
import pytest

from evidence import private_prediction as module
from evidence.private_prediction import cell, chance, noise
from rapt.results.predictions import Predictions
from rapt.serving.private_prediction import noisy_choice
from tests.conftest import ROOT


def test_the_chance_is_the_share_of_noisy_votes() -> None:
    """Of 4,000 draws; a false alarm is 1 of 10⁶."""
    for right, wrong in ((7.0, 3.0), (5.0, 5.0), (2.0, 8.0)):
        found = [noisy_choice(np.array([right, wrong]), 4.0) == 0 for _ in range(4000)]
        (expected,) = chance(np.array([right - wrong]), 4.0)
        assert np.mean(found) == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(4000))


def test_votes_that_are_known() -> None:
    """Of two texts one has all ten votes, the other is a draw."""
    answers = np.array([[1] * 10, [1, 0] * 5]).T
    labels = np.array([1, 0])
    found = cell(Predictions(["a", "b"], labels, np.eye(2)[answers]))
    assert found["teacher"]["mean"] == found["agreement"]["mean"] == found["vote"]["mean"] == 0.75
    first, second = chance(np.array([10.0, 0.0]), noise(8, 100))
    assert found["100"]["8"]["mean"] == pytest.approx((first + second) / 2)
    assert second == 0.5 and found["1000"]["1"]["mean"] < found["10"]["8"]["mean"] < 0.75


def test_the_file_is_what_the_answers_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    kept, found = (
        pd.json_normalize(figures).iloc[0].to_dict()
        for figures in (json.loads((ROOT / module.OUT).read_text()), module.figures())
    )
    assert kept == pytest.approx(found, rel=1e-9)  # processors differ in the last digits
