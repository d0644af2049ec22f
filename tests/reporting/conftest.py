from __future__ import annotations

from pathlib import Path

import pytest

from rapt import params
from rapt.params import Params
from rapt.reporting import writer
from rapt.results import reader
from tests.reporting import synthetic


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """A whole synthetic experiment in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)
    return synthetic.write(tmp_path)


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole experiment and its report, made once."""
    folder = tmp_path_factory.mktemp("reported")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        writer.write(reader.load(synthetic.write(folder)))
    return folder


@pytest.fixture
def whole(reported: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """The experiment of `reported`, as the working folder: to be read, not changed."""
    monkeypatch.chdir(reported)
    return params.load()
