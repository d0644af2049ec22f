"""Expectations as the gates check them."""

from pathlib import Path

import pandas as pd
import pytest

from rapt.results.gates import report, write
from rapt.utils.errors import RaptError
from stages.expectations import check, there


def test_at_most_twenty_examples_and_the_rest_is_counted(tmp_path: Path) -> None:
    frame = pd.DataFrame({"example_id": [f"train-{i:06d}" for i in range(30)], "good": None})
    findings = check(frame, "train", there("good", "good ones"))
    assert findings[0]["failed"] == 30
    assert findings[0]["examples"] == [f"train-{i:06d}" for i in range(20)]
    with pytest.raises(RaptError, match=r"got 30 of 30 that fail \(train-000000, .*004, …\)"):
        write(str(tmp_path / "gates"), {"a": report(findings, gate="raw", task="a")})


def test_what_cannot_be_checked_stops_it_without_text(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"example_id": ["train-000000"], "text": ["secret"]})
    with pytest.raises(RaptError) as error:
        check(frame, "train", there("good", "good ones"))
    assert str(error.value) == (
        "train: got no result of the expectation 'good ones are there', expected one. Look for "
        "values of another type."
    )
    assert "secret" not in "".join(capsys.readouterr())
