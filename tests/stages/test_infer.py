"""The intervals of inference: what varies is the author, where authors are known."""

from __future__ import annotations

import numpy as np
import pytest

from stages.infer import _intervals


def test_texts_of_one_author_belong_together() -> None:
    """Twenty texts each of ten authors, who are told as one: as sure as ten texts would be."""
    authors = np.repeat(np.arange(10), 20)
    right = {"age": authors < 6}
    alone = {"age": np.arange(10) < 6}
    low, high = _intervals([right, right], authors)["accuracy_age"]
    assert (low, high) == pytest.approx(_intervals([alone, alone], None)["accuracy_age"])
    near, far = _intervals([right, right], None)["accuracy_age"]
    assert high - low > 4 * (far - near)
