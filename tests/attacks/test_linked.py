"""How often public texts are linked, over the tiny table of conftest.py."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from rapt.attacks import linked
from rapt.audit.cases import points
from rapt.measures.level_search import at_levels, eta_for_linked
from rapt.privacy.config import Calibrate
from rapt.privacy.mechanisms import mechanism
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

SIZES = {"CANDIDATES": 60, "VICTIMS": 60, "OWN": 60, "WORDS": 4}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in SIZES.items():
        monkeypatch.setattr(linked, name, size)


def at(table: EmbeddingTable, name: str) -> Any:
    categories = ["noun", "verb"] if name == "pct2t" else None
    return partial(
        mechanism(type=name).privatizer(table=table, eta=np.inf, categories=categories).at
    )


@pytest.mark.parametrize("name", ["t2t", "santext", "token-representation", "adept"])
def test_chance_without_signal_and_nearly_all_without_noise(
    table: EmbeddingTable, name: str
) -> None:
    """1 of 60; more than 5 of 60 by chance is rarer than 1 in 1,000, and the noise is fixed."""
    blind, clear = (linked.linked(at(table, name)(eta), 0) for eta in (1e-3, 1e4))
    assert blind.value < 0.1 and blind.high < 0.2
    assert clear.value > 0.9
    assert blind.low >= 0 and clear.high <= 1
    assert blind.low <= blind.value <= blind.high and clear.low < clear.value


def test_tokens_link_as_well_as_the_words_that_they_are() -> None:
    """Where words are the tokens both mechanisms are one, draw by draw."""
    words, tokens = (linked.linked(at(points(8), name)(10.0), 0) for name in ("t2t", "t2t-tokens"))
    assert 0.5 < words.value < 0.9 and tokens.value > words.value - 0.1


def test_a_level_of_linkage_is_one_of_every_unit(table: EmbeddingTable) -> None:
    methods: Any = {name: ({"type": name}, None) for name in ("t2t", "sequence-representation")}
    rows = at_levels(table, methods, ["linked-50"], Calibrate(), 0, linked.linked)
    assert [row["method"] for row in rows] == [*methods]
    assert all(row["linked_high"] <= 0.5 and row["eta"] > 0 for row in rows)
    pct2t: Any = {"pct2t": ({"type": "pct2t"}, ["noun", "verb"])}
    line = (
        r"^sweep\.etas: got linked-10 with method pct2t, expected a level that an η of it gives\."
    )
    with pytest.raises(RaptError, match=line):
        at_levels(table, pct2t, ["linked-10"], Calibrate(), 0, linked.linked)


@pytest.mark.parametrize("name", ["t2t", "sequence-representation"])
def test_the_eta_of_a_level_is_the_largest_that_keeps_it(table: EmbeddingTable, name: str) -> None:
    made = at(table, name)
    found = eta_for_linked(lambda eta: linked.linked(made(eta), 0), 0.5)
    assert found and found["linked"] < found["linked_high"] <= 0.5
    assert linked.linked(made(found["eta"]), 0).high == found["linked_high"]
    assert linked.linked(made(1.5 * found["eta"]), 0).high > 0.5


def test_words_outside_the_categories_stay_and_link(table: EmbeddingTable) -> None:
    assert linked.linked(at(table, "pct2t")(1e-3), 0).value > 0.3
