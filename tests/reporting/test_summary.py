"""The summary of a report in the terminal."""

from __future__ import annotations

import pytest

from rapt import paths
from rapt.params import Params
from rapt.reporting.summary import print_results

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_terminal_shows_the_tables_and_where_the_report_lies(
    whole: Params, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results(whole)
    out = capsys.readouterr().out
    assert "accuracy, % (baseline 51.0; nothing sent 75.2; clean text, unprotected 82." in out
    assert out.rstrip().endswith(str(paths.REPORT.resolve()))
