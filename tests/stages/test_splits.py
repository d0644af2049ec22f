"""Attacks learn from the train split and are scored on the test split, in every stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt.attacks.attributes import AttributeMlp
from rapt.attacks.base import Inverter, Pairs, Public, Release, Values
from rapt.attacks.trained_inversion import MlpInversion
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import infer, invert, privatize
from tests.stages.test_denoise import small as small
from tests.stages.test_recognize import attacked as attacked
from tests.tuning.conftest import backbone as backbone

Texts = list[list[str]]


def original(split: str, column: str = "words") -> Any:
    return files.read_parquet(f"data/tagged/mine/{split}.parquet")[column].to_pylist()


def released(split: str) -> Texts:
    folder = Path("data/private/mine/pct2t-3/seed-1")  # the last that a stage reads
    found: Texts = files.read_parquet(folder / f"{split}.parquet")["words"].to_pylist()
    assert found != original(split)
    return found


@pytest.fixture
def release(small: Path) -> None:
    """One release of two splits of different texts, with an attribute."""
    for number, split in enumerate(("train", "test")):
        path = small / f"data/tagged/mine/{split}.parquet"
        rows = files.read_parquet(path)
        values = pa.array([f"{split}-{(i + number) % 3}" for i in range(rows.num_rows)])
        files.write_parquet(path, rows.append_column("attribute_author", values))
    assert original("train") != original("test")
    privatize.main("mine", "pct2t", "3", "minilm", Path("data/private/mine/pct2t-3"))


def test_an_inversion_learns_from_pairs_of_the_train_split(
    release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Texts] = {}

    def fit(self: MlpInversion, public: Public, own: Pairs, seed: int) -> Inverter:
        shown.update(own=list(own.words), own_released=list(own.released.words))

        def words(copies: Sequence[Release]) -> Texts:
            shown["victims"] = [list(text) for text in copies[0].words]
            return shown["victims"]

        return Inverter(words)

    monkeypatch.setattr(MlpInversion, "fit", fit)
    invert.main("mlp-words", "mine", "pct2t", "3")
    assert shown == {
        "own": original("train"),
        "own_released": released("train"),
        "victims": released("test"),
    }


def test_an_inference_learns_from_attributes_of_the_train_split(
    release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Any] = {}

    def guesses(
        self: AttributeMlp,
        table: EmbeddingTable,
        own: Release,
        values: Values,
        victims: Release,
        seed: int,
    ) -> dict[str, list[str]]:
        shown.update(own=own.words, values=dict(values), victims=victims.words)
        return {"author": original("test", "attribute_author")}

    monkeypatch.setattr(AttributeMlp, "guesses", guesses)
    infer.main("mlp", "mine", "pct2t", "3")
    assert shown == {
        "own": released("train"),
        "values": {"author": original("train", "attribute_author")},
        "victims": released("test"),
    }
