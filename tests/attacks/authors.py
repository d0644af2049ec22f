"""Texts of known authors, to infer an attribute from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from rapt.attacks.attributes import AttributeHidden
from rapt.attacks.base import Inference, Release
from rapt.text.table import EmbeddingTable
from tests.tuning.conftest import backbone as backbone


class Known(NamedTuple):
    """Texts and the value of each."""

    release: Release
    values: list[str]


@pytest.fixture
def hidden(backbone: Path) -> AttributeHidden:
    return AttributeHidden(
        type="attribute-hidden",
        model=str(backbone),
        sha256=None,
        max_tokens=16,
        hidden=32,
        epochs=60,
        learning_rate=0.01,
    )


def accuracy(how: Inference, table: EmbeddingTable, own: Known, victims: Known) -> float:
    known = {"author": own.values}
    guesses = how.guesses(table, own.release, known, victims.release, 0)["author"]
    return float(np.mean(np.array(guesses) == victims.values))
