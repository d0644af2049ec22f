"""`rapt distinguish`: two texts of one's own."""

from pathlib import Path

import pytest

from rapt.attacks.distinguish import Distinguished
from tests.conftest import Rapt
from tests.release.conftest import folder as folder

FEW = ("--draws", 60)


def test_it_says_what_is_promised_and_what_is_measured(rapt: Rapt, folder: Path) -> None:
    done = rapt(
        "distinguish", "Bob met Alice", "Bob met Carol", "--eta", 1, "--table", folder, *FEW
    )
    assert (done.returncode, done.stderr) == (0, "")
    promised, measured, _ = done.stdout.splitlines()
    assert promised.startswith("1 of 3 words differ. A release tells at most ")
    assert measured.startswith("An attacker who knows both texts has an advantage of ")


def test_a_longer_text_has_no_bound(rapt: Rapt, folder: Path) -> None:
    done = rapt("distinguish", "Bob", "Bob ran", "--eta", 1, "--table", folder, *FEW)
    assert "1 of 2 words differ. Nothing is promised between them." in done.stdout


def test_an_advantage_above_the_promise_is_an_error(
    rapt: Rapt, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Distinguished(0.9, 0.8, 1.0, 0.1, 0.05, 20)
    monkeypatch.setattr("rapt.attacks.distinguish.distinguish", lambda *_: broken)
    done = rapt("distinguish", "Bob", "Eve", "--eta", 1, "--table", folder, *FEW)
    assert done.returncode == 2
    assert done.stderr.startswith("advantage: got at least 0.800, expected at most 0.050, which")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("", "Bob", "--eta", 1), "rapt distinguish: got a text without words, expected two"),
        (("Bob", "Eve", "--eta", 0), "eta: got"),
        (("Bob", "Eve", "--eta", 1, "--mechanism", "t3t"), "mechanism: got 't3t'"),
        (("Bob", "Eve", "--eta", 1, "--categories", "nouns"), "categories"),
    ],
)
def test_bad_input_is_one_line(
    rapt: Rapt, folder: Path, options: tuple[object, ...], line: str
) -> None:
    done = rapt("distinguish", *options, "--table", folder, *FEW)
    assert done.returncode == 2
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1
