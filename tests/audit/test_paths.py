"""The ways to release texts, and the generator. Mutants: test_mutants_of_releases.py."""

import os
from pathlib import Path

import pytest

from rapt.audit import FALSE_ALARM, paths
from rapt.audit.paths import generator, states
from tests.audit.test_mutants_of_releases import MOST_CHECKS

WAYS = ["files", "workers", "spaCy", "datasets.map", "category"]


def test_the_generator_repeats_nothing() -> None:
    assert min(check.p for check in generator()) > FALSE_ALARM
    assert states() > 20


@pytest.mark.slow
def test_an_audit_stays_out_of_the_user_s_own_ledger(recwarn: pytest.WarningsRecorder) -> None:
    home = os.environ["XDG_DATA_HOME"]
    found = {name: checks for name, checks, *_ in paths.released()}
    assert list(found) == WAYS
    for checks in found.values():
        assert len(checks) <= MOST_CHECKS
        assert min(check.p for check in checks) > FALSE_ALARM / len(checks)
    assert not Path(home).exists()
    assert os.environ["XDG_DATA_HOME"] == home
    assert not [one for one in recwarn if "ledger" in str(one.message)]
