"""README's commands: each is one that the tools have, with options that they take."""

from __future__ import annotations

import re
import shlex

import dvc.cli
import pytest
import typer.main

from rapt.cli import app
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
LINES = [line.split("  #")[0].strip() for line in re.findall(r"^    (\S.*)$", README, re.MULTILINE)]
COMMANDS = [shlex.split(part) for line in LINES for part in re.split(r"; | && ", line)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_one_that_there_is(words: list[str]) -> None:
    match words:
        case ["rapt", *arguments]:
            command = typer.main.get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
            command.make_context(arguments[0], arguments[1:])
        case ["dvc", *arguments]:
            dvc.cli.parse_args(arguments)
        case ["make", target]:
            assert target in TARGETS
        case ["git" | "cd" | "source" | "$EDITOR", *_]:
            pass
        case ["pip", "install", "rapt"]:
            pass
        case _:
            pytest.fail(f"README: got {words}, which no test knows")


def test_the_commands_are_found() -> None:
    assert len(COMMANDS) > 20
    assert {"init", "plan", "privatize", "predict"} <= {w[1] for w in COMMANDS if w[0] == "rapt"}
