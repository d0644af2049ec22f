"""The tables and figures of single words: calibration, channels, geometry."""

from pathlib import Path

import pytest

from rapt import paths
from rapt.params import Params
from rapt.utils import files
from tests.reporting.conftest import Page, page, rows, swept, table


def test_deniability_and_geometry_are_shown(whole: Params) -> None:
    found = rows("reports/tables/channels.csv")
    sweep = whole.sweep
    assert len(found) == 2 * len(sweep.embeddings) * len(sweep.channels) * len(sweep.etas)
    row = next(r for r in found if (r["method"], r["eta"], r["choice"]) == ("t2t", "75", "sampled"))
    assert (row["n_w_5"], row["n_w_median"], row["n_w_95"]) == ("125.0", "500.0", "750.0")
    text = Page(paths.REPORT.read_text()).text
    assert "t2t 75 300 sampled 80 50.0 47.0 – 53.0 500 125 – 750 21" in text
    nearest = rows("reports/tables/neighbours.csv")[0]
    assert float(nearest["eta"]) == pytest.approx(384 / float(nearest["mean"]), rel=1e-5)
    drawn = {path.name for path in Path("reports/figures").iterdir()}
    names = ("n-w-minilm", "s-w-minilm", "geometry-minilm")
    assert {f"{name}.{suffix}" for name in names for suffix in ("svg", "png")} <= drawn


def test_the_eta_of_a_share_stands_with_its_interval(whole: Params) -> None:
    text = Page(paths.REPORT.read_text()).text
    assert "t2t 50.0 75.0 73.5 – 76.5 minilm" in text
    assert "t2t 10.0 103.0 101.5 – ∞ minilm" in text  # no η is known to be too large
    first = rows("reports/tables/targets.csv")[0]
    assert (first["replaced"], first["eta"], first["eta_low"]) == ("0.9", "47.0", "45.5")


def test_a_calibration_is_listed_by_its_eta(experiment: Params) -> None:
    path = Path("reports/calibration/minilm.json")
    content = files.read_json(path)
    content["curves"]["t2t"].reverse()
    files.write_json(path, content)
    of_t2t = [row for row in table(experiment, "calibration") if row["mechanism"] == "t2t"]
    etas = [float(row["eta"]) for row in of_t2t]
    assert len(etas) > 3 and etas == sorted(etas)


def test_a_sweep_without_channels_has_none(experiment: Params) -> None:
    p = swept(experiment, channels=[])
    assert "The sweep names no channel" in page(p).text
    assert table(p, "channels") == []
