"""`rapt report`: a stamped copy of the page."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rapt.cli import app
from rapt.params import Params
from rapt.reporting.command import report
from rapt.utils.errors import RaptError


def test_what_is_dvcs_is_refused(whole: Params) -> None:
    with pytest.raises(
        RaptError, match=r"copy.html: got a path in reports, expected one outside it"
    ):
        report(Path("reports/copy.html"))
    with pytest.raises(RaptError, match=r"^OUT: got 'tpyo/copy.html', expected a path in a folder"):
        report(Path("tpyo/copy.html"))
    assert not Path("tpyo").exists()


def test_the_command_says_where_the_copy_lies(whole: Params, tmp_path: Path) -> None:
    copy = tmp_path / "copy.html"
    done = CliRunner().invoke(app, ["report", str(copy)])
    assert done.exit_code == 0 and done.stdout == f"{copy}\n"
    assert 'id="stamp"' in copy.read_text()
