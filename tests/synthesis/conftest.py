"""A tiny random language model, and a few private texts."""

from pathlib import Path

import numpy as np
import pytest

from rapt.synthesis.base import Draw, PrivateTexts
from tests.serving.conftest import write_gpt2

TEXTS = ("so good film", "very good plot", "bad film", "so so bad", "good", "unlikely bad plot")


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a GPT-2 of two layers."""
    folder = tmp_path_factory.mktemp("writer")
    write_gpt2(folder)
    return folder


@pytest.fixture
def private() -> PrivateTexts:
    """Twenty-four texts of two classes."""
    return PrivateTexts(TEXTS * 4, np.array([1, 1, 0, 0, 1, 0] * 4), ["bad", "good"])


@pytest.fixture
def draw(writer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """A copy at ε 4; its checkpoints lie in a folder of the test."""
    monkeypatch.setenv("RAPT_HOME", str(tmp_path / "home"))
    return Draw(4.0, writer, 0, (0, "films", "made", "4"))
