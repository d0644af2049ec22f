from __future__ import annotations

from pathlib import Path

import pytest

from rapt.params import Params
from tests.reporting import synthetic


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A whole synthetic experiment in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    return synthetic.write(tmp_path)
