"""`rapt ledger`, after `rapt privatize`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rapt.cli import main
from rapt.release.ledger import Ledger
from tests.release.conftest import folder as folder

Rapt = Callable[..., str]


@pytest.fixture
def rapt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Rapt:
    monkeypatch.chdir(tmp_path)

    def run(*args: object, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["rapt", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == status
        return "".join(capsys.readouterr())

    return run


def test_two_releases_of_a_text_are_told_and_forgotten(rapt: Rapt, folder: Path) -> None:
    Path("in.txt").write_text("Bob met Alice\nBob went\n")
    options = ("--eta", 0.1, "--table", folder)
    assert "ledger" not in rapt("privatize", "in.txt", "one.txt", *options)
    said = rapt("privatize", "in.txt", "two.txt", *options)
    assert "The ledger knows 2 of the texts from earlier releases: losses add up, to" in said
    assert "2 texts in 2 releases; one has lost " in rapt("ledger")
    refused = rapt("privatize", "in.txt", "three.txt", *options, "--budget", 1e-3, status=2)
    assert refused.startswith("budget: got ") and "expected at most 0.001" in refused
    assert not Path("three.txt").exists()
    assert rapt("ledger", "--reset").startswith("0 texts in 0 releases; one has lost 0 nats")


def test_seeded_releases_do_not_count(rapt: Rapt, folder: Path) -> None:
    Path("in.txt").write_text("Bob met Alice\n")
    options = ("--eta", 0.1, "--table", folder, "--insecure-seed", 7)
    said = rapt("privatize", "in.txt", "one.txt", *options)
    assert said.endswith(". The ledger counts nothing, as the noise is seeded.\n")
    assert Ledger().total() == (0, 0, 0)
    refused = rapt("privatize", "in.txt", "two.txt", *options, "--budget", 9, status=2)
    assert refused.startswith("budget: got one with an insecure seed, expected none")


@pytest.mark.parametrize("budget", ["0", "-1", "nan"])
def test_a_budget_is_above_zero(rapt: Rapt, folder: Path, budget: str) -> None:
    Path("in.txt").write_text("Bob met Alice\n")
    args = ("in.txt", "one.txt", "--eta", 0.1, "--table", folder, "--budget", budget)
    assert rapt("privatize", *args, status=2).startswith("budget: got ")
