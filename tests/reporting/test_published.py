"""Numbers of the papers beside one's own."""

from __future__ import annotations

import pytest

from rapt import paths
from rapt.params import Params
from rapt.reporting.published import beside
from rapt.results import reader
from tests.reporting.conftest import Page, rows

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_eta_stands_beside_the_papers_and_by_the_share(whole: Params) -> None:
    replacement, inversion = beside(reader.load(whole))
    assert replacement.etas == ["25", "75", "125", "150", "175"]
    assert list(replacement.rows) == [
        "published: bert-base-uncased (RAPT, table III)",
        "here: minilm",
    ]
    printed, ours = replacement.rows.values()
    assert list(printed.values()) == ["94", "85", "45", "14", "5"]
    assert ours == {
        "25": "99.0",
        "75": "50.0",
        "125": "10.0",
        "150": "5.0",
    }  # 175 was not calibrated
    printed, ours = inversion.rows.values()
    assert (printed["150"], ours["150"]) == ("85.0", "95.0")
    text = Page(paths.REPORT.read_text()).text
    assert "published: bert-base-uncased (RAPT, table III) 94 85 45 14 5" in text
    assert "here: minilm 99.0 50.0 10.0 5.0 –" in text
    assert "t2t 50.0 75.0 73.5 – 76.5 minilm" in text
    assert "t2t 10.0 103.0 101.5 – ∞ minilm" in text  # no η is known to be too large
    first = rows("reports/tables/targets.csv")[0]
    assert (first["replaced"], first["eta"], first["eta_low"]) == ("0.9", "47.0", "45.5")
