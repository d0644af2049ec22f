"""Attributes read off hidden states."""

from __future__ import annotations

import numpy as np

from rapt.attacks.attributes import AttributeHidden
from rapt.attacks.base import Release
from rapt.text.table import EmbeddingTable
from tests.attacks.authors import Known, accuracy
from tests.attacks.authors import hidden as hidden
from tests.tuning.conftest import backbone as backbone


def test_an_attribute_is_read_off_hidden_states(
    table: EmbeddingTable, hidden: AttributeHidden
) -> None:
    rng = np.random.default_rng(0)
    who = rng.integers(2, size=200)
    texts = [[("good", "bad")[w], *rng.choice(["film", "plot", "so"], 3)] for w in who]
    known = Known(Release(texts), [f"author-{w}" for w in who])
    half = Known(Release(texts[:100]), known.values[:100])
    rest = Known(Release(texts[100:]), known.values[100:])
    assert accuracy(hidden, table, half, rest) > 0.9
