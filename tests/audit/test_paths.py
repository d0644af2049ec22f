"""The ways to release texts: their law, and the words that they give. Mutants: test_mutants.py."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.audit import FALSE_ALARM, paths
from rapt.audit.paths import Paths, generator, states


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    return Paths(tmp_path_factory.mktemp("paths"), 384)


def test_the_word_stays_half_of_the_time(made: Paths) -> None:
    law = made.law()
    assert law[1] == pytest.approx(0.5, abs=0.01)
    assert sum(law) == pytest.approx(1)
    assert made.law(1.2)[1] > law[1]


def released(made: Paths, rng: np.random.Generator, factor: float = 1.0) -> list[str]:
    words = rng.choice(["left", "middle", "right"], (paths.TEXTS, paths.WORDS), p=made.law(factor))
    return [" ".join(text) for text in words]


def test_false_alarms_are_as_rare_as_stated_and_the_power_is_as_great(
    made: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "TEXTS", 20)
    monkeypatch.setattr(paths, "HALF", 10)
    monkeypatch.setattr(made, "law", cache(made.law))
    rng, level, audits = np.random.default_rng(0), 0.05, 80
    alarms = 0
    for _ in range(audits):
        checks = list(made.checks(released(made, rng)))
        alarms += min(check.p for check in checks) < level / len(checks)
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM
    excess = made.excess(1e-8)
    assert excess and excess < 1.25
    caught = sum(
        min(check.p for check in made.checks(released(made, rng, excess))) < 1e-8
        for _ in range(audits)
    )
    assert binomtest(caught, audits, 0.99, "less").pvalue > FALSE_ALARM


def test_another_number_of_words_or_another_word_fails(made: Paths) -> None:
    sound = released(made, np.random.default_rng(0))
    fewer = [*sound[:-1], "middle"]
    assert [check.p for check in made.checks(fewer)] == [0.0]
    verbatim = ["Middle " * paths.WORDS] * paths.TEXTS
    assert min(check.p for check in made.checks(verbatim)) == 0


def test_each_way_gives_the_texts_of_two_calls_or_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "TEXTS", 20)
    monkeypatch.setattr(paths, "HALF", 10)
    some = Paths(tmp_path, 8)
    assert list(some.names()) == ["files", "workers", "spaCy", "datasets.map"]
    for way in some.names().values():
        texts = way()
        assert len(set(texts)) == len(texts) == 20
        assert {len(text.split()) for text in texts} == {paths.WORDS}


def test_the_generator_repeats_nothing() -> None:
    assert min(check.p for check in generator()) > FALSE_ALARM
    assert states() > 20


def test_an_audit_stays_out_of_the_user_s_own_ledger(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(paths, "TEXTS", 4)
    monkeypatch.setattr(paths, "HALF", 2)
    home = os.environ["XDG_DATA_HOME"]
    assert [name for name, *_ in paths.released(8)] == ["files", "workers", "spaCy", "datasets.map"]
    assert not Path(home).exists()
    assert os.environ["XDG_DATA_HOME"] == home
    assert not [one for one in recwarn if "ledger" in str(one.message)]
