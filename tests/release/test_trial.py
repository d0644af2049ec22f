"""A text on trial: levels, what an attacker reads of a word, and the notebook that shows it."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from rapt.measures import strength
from rapt.privacy import streams
from rapt.release.ledger import Ledger
from rapt.release.text import TextPrivatizer
from rapt.release.trial import at_level, tried
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.release.conftest import FOUR

NOTEBOOK = ROOT / "docs/try.ipynb"


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_level_is_the_share_that_is_replaced(folder: Path, share: float) -> None:
    privatizer = at_level(share, table=folder, categories=FOUR)
    assert privatizer.mechanism == "pct2t"
    assert strength.replaced(privatizer.privatizer).value == pytest.approx(share, abs=0.03)


def test_a_level_that_no_eta_gives_is_refused(folder: Path) -> None:
    """Of three words the noise itself gives one in three back."""
    with pytest.raises(RaptError, match=r"^level: got 95% of the words replaced, expected a share"):
        at_level(0.95, table=folder, categories=FOUR)


def test_without_noise_to_speak_of_the_attacker_reads_what_he_knows(
    make: Callable[..., TextPrivatizer],
) -> None:
    trial = tried(make(eta=1e3, categories=FOUR, allow_weak=True), "Bob met Alibobo at 7.")
    bob, met, unknown, _, seven, stop = trial.words
    assert bob.guesses[0] == ("bob", pytest.approx(1))
    assert (bob.read, bob.sure) == (True, pytest.approx(1))
    assert met.read
    # He guesses a word of the table, and is sure of it.
    assert (unknown.read, unknown.sure) == (False, 0)
    assert unknown.guesses[0][0] == unknown.word.released
    assert (seven.guesses, seven.read, seven.sure) == ((), False, 0)
    assert (stop.guesses, stop.read, stop.sure) == ((), True, 1)
    assert trial.released.startswith("bob met ")
    assert trial.statement["words"]["noise"] == 4
    assert Ledger().total() == (0, 0, 0)


def test_strong_noise_leaves_him_with_public_frequencies(
    make: Callable[..., TextPrivatizer],
) -> None:
    (bob, *_) = tried(make(eta=1e-3, categories=FOUR), "Bob met Alice.").words
    assert bob.sure == pytest.approx(1 / 8, abs=0.02)  # of eight nouns, equally frequent


def test_the_notebook_has_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 4
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]


@pytest.mark.slow
def test_the_notebook_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With MiniLM's table, as on a first use; its code is plain Python.

    Its noise is repeatable here: over seven words the attacker's mean certainty varies by tens of
    percent, and the bounds below would fail by chance.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(streams, "os", SimpleNamespace(urandom=Random(0).randbytes))
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    out = capsys.readouterr().out
    sure = [int(line.split()[2].rstrip("%")) for line in out.splitlines() if "% replaced:" in line]
    assert sure == sorted(sure) and len(sure) == 3
    assert sure[0] < 30 and sure[-1] > 60
    assert Ledger().total() == (0, 0, 0)
