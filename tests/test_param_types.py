"""Types of more than one section: the privacy parameter."""

import copy

import pytest

from rapt import params
from tests.every_section import EVERY, lines


@pytest.mark.parametrize("eta", [0, -1, -0.5, float("nan"), "fifty", True, None, [75], "-inf"])
def test_eta_is_above_zero(eta: object) -> None:
    (line,) = lines(lambda c: c["sweep"].update(etas=[eta]))
    assert line.startswith("sweep.etas.0: ")
    assert "a number above 0" in line


def test_eta_is_written_as_it_stands_in_paths() -> None:
    def etas(*given: object) -> list[str]:
        content = copy.deepcopy(EVERY)
        content["sweep"] |= {"etas": list(given), "tune_at": []}
        content["studies"] = {}
        return params.validate(content).sweep.etas

    assert etas(75, 62.5) == ["75", "62.5"]
    assert etas("replaced-50", "recovered-5", 75) == ["replaced-50", "recovered-5", "75"]
    (line,) = lines(lambda c: c["sweep"].update(etas=[75.0]))
    assert line == "sweep.etas.0: got 75.0, expected 75."


LEVELS = "a level from replaced-1 to replaced-99, or recovered, or linked, or a number."


@pytest.mark.parametrize(
    "level",
    [
        *("replaced-0", "replaced-100", "replaced--5", "replaced-5.5", "replaced", "recovered-0"),
        {"replaced": 0.5},
    ],
)
def test_a_level_is_a_share_in_per_cent(level: object) -> None:
    """DVC makes a stage's name of it, so it is one word."""
    (line,) = lines(lambda c: c["sweep"].update(etas=[level]))
    assert line == f"sweep.etas.0: got {level!r}, expected {LEVELS}"


def test_an_unknown_level_is_no_eta() -> None:
    (line,) = lines(lambda c: c["sweep"].update(etas=["guessed-50"]))
    assert line.startswith("sweep.etas.0: got 'guessed-50', expected a number above 0")


def test_calibration_is_at_numbers() -> None:
    (line,) = lines(lambda c: c["calibrate"].update(etas=["replaced-50"]))
    assert line.startswith("calibrate.etas: got replaced-50, expected numbers alone")
