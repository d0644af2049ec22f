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
    (line,) = lines(lambda c: c["sweep"].update(etas=[75.0]))
    assert line == "sweep.etas.0: got 75.0, expected 75."
