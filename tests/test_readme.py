"""The commands of README.md and the tutorial: each exists, with the options that it shows."""

import re
import shlex
import subprocess
import sys

import dvc.cli
import pytest
import typer.main

from rapt.cli import app
from tests.conftest import ROOT

TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(page: str) -> list[list[str]]:
    """The commands of a page's code."""
    shown = re.findall(r"^    (\S.*)$", page, re.MULTILINE)
    lines = [line.split("  #")[0].strip() for line in shown]
    return [shlex.split(part) for line in lines for part in re.split(r"; | && ", line)]


README = commands((ROOT / "README.md").read_text())


@pytest.mark.parametrize("words", [*README, *commands(TUTORIAL)], ids=" ".join)
def test_a_command_is_one_that_there_is(words: list[str]) -> None:
    match words:
        case ["rapt", *arguments]:
            command = typer.main.get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
            command.make_context(arguments[0], arguments[1:])
        case ["dvc", *arguments]:
            dvc.cli.parse_args(arguments)
        case ["make", target]:
            assert target in TARGETS
        case ["python", script, *_]:
            assert (ROOT / script).is_file()
        case ["git" | "cd" | "source" | "head" | "$EDITOR", *_]:
            pass
        case ["pip", "install", "rapt"]:
            pass
        case _:
            pytest.fail(f"got {words}, which no test knows")


def test_every_target_of_make_that_a_page_names_exists() -> None:
    pages = [page.read_text() for page in ROOT.glob("[de]*/*.md")]
    named = {n for page in pages for n in re.findall(r"(?:^    |`)make ([a-z]+)", page, re.M)}
    assert "benchmark" in named
    assert named <= TARGETS


def test_the_commands_are_found() -> None:
    assert len(README) > 20
    assert {"init", "plan", "privatize", "predict"} <= {w[1] for w in README if w[0] == "rapt"}


def test_the_tutorial_shows_its_file() -> None:
    script = [sys.executable, ROOT / "docs/hotels.py"]
    made = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert made.count("\n") == 901
    assert f"```\n{''.join(made.splitlines(keepends=True)[:2])}```" in TUTORIAL
