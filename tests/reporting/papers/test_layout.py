"""The layout of the papers' tables, as data."""

from __future__ import annotations

import pytest

from rapt import presets
from rapt.reporting.papers.layout import layouts
from rapt.reporting.papers.rows import ROWS
from rapt.reporting.papers.settings import SETTINGS
from tests.conftest import ROOT


def test_each_layout_names_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    for layout in layouts().values():
        assert layout.rows in {None, "overhead", *ROWS}
        assert layout.setting in {None, *SETTINGS}
        assert {entry["preset"] for entry in layout.presets} <= set(presets.names())
        assert {*layout.cells, *layout.without, *(layout.empty or ())} <= {
            *layout.columns,
            "command",
            "tuner",
        }
