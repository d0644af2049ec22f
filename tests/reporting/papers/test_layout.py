"""The layout of the papers' tables, as data."""

from __future__ import annotations

from typing import get_args

import pytest

from rapt import presets
from rapt.reporting.papers.layout import Study, layouts
from rapt.reporting.papers.rows import ROWS
from tests.conftest import ROOT


def test_each_layout_names_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    for layout in layouts().values():
        assert layout.rows in {None, "overhead", *ROWS}
        assert layout.setting in {None, *get_args(Study)}
        assert {entry["preset"] for entry in layout.presets} <= set(presets.names())
        assert {*layout.cells, *layout.without, *(layout.empty or ())} <= {
            *layout.columns,
            "command",
            "tuner",
        }
