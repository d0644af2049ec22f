"""The training data of an attacker's recognizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rapt.attacks.entities import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import recognizer
from tests.stages.test_denoise import small as small
from tests.stages.test_recognize import attacked as attacked
from tests.tuning.conftest import backbone as backbone

Texts = list[list[str]]


def original(split: str, column: str = "words") -> Any:
    return files.read_parquet(f"data/tagged/mine/{split}.parquet")[column].to_pylist()


def test_a_recognizer_learns_from_the_train_split(
    attacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shown(RaptError):
        """Carries the texts that the recognizer would learn from."""

    def fitted(how: Ner, texts: Texts, tags: Texts, seed: int) -> None:
        assert texts == original("train")
        assert tags == [["B-PER" if word == "good" else "O" for word in text] for text in texts]
        raise Shown

    monkeypatch.setattr(Recognizer, "fitted", fitted)
    with pytest.raises(Shown):
        recognizer.main("ner", "mine")
