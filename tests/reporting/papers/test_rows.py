"""The papers' tables that are no tuned cells beside printed numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rapt.params import Params
from tests.reporting import synthetic
from tests.reporting.papers.conftest import EDGE, found, planned


def test_table_10_has_ours_only_where_it_was_measured(whole: Params) -> None:
    rows = found(whole, benchmarks=EDGE)["rapt-table-10"].rows
    ours = {(r.factors["words"], r.factors["measure"]): r.mean for r in rows if not r.missing}
    assert ours == {
        ("10", "time, s"): 0.05,
        ("100", "time, s"): 0.07,
        ("10", "peak memory, MiB"): 57.5,
        ("10", "rapt privatize: time, s"): 3.2,
    }
    assert not any(row.mean for row in found(whole)["rapt-table-10"].rows)


def test_the_categories_are_a_setting_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = found(planned("attacks-categories", tmp_path, monkeypatch))["rapt-figures-6-8-10"].rows
    assert len({row.factors["setting"] for row in rows}) == 10


def test_figure_9_has_every_layer_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    p = synthetic.write(tmp_path, synthetic.compare_layers)
    name = "movies-minilm-lora-rapt-75"
    Path(f"reports/statistics/layers/{name}.json").unlink()
    rows = found(p)["rapt-figure-9"].rows
    assert [row.command for row in rows if row.missing] == [f"dvc repro layers@{name}"]
    own = [row for row in rows if not row.missing]
    assert len(own) == 7 * 2
    last = [row for row in own if row.factors["layer"] == "6"]
    assert [row.factors["measure"] for row in last] == ["from clean", "between texts"]
    assert last[0].mean == pytest.approx(0.5 * 7.05)
    assert (last[0].n, last[0].factors["method"], last[0].factors["eta"]) == (2, "t2t", "75")
