"""Attributes that a fine-tuned encoder reads, where what tells them is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.attributes import AttributeEncoder, Authorship
from rapt.attacks.base import Release
from rapt.text.table import EmbeddingTable
from tests.attacks.authors import Known, accuracy
from tests.attacks.test_bayesian import FALSE_ALARM
from tests.tuning.conftest import backbone as backbone

pytestmark = pytest.mark.slow


def orders(n: int, seed: int, told: bool) -> Known:
    """Texts of five words, where `good` comes before `bad` or after it, each between two others.

    The order tells the author; untold, it is drawn anew.
    """
    rng = np.random.default_rng(seed)
    who, others = rng.integers(2, size=n), rng.choice(["film", "plot", "so"], (n, 3))
    order = who if told else rng.integers(2, size=n)
    words = ("good", "bad")
    texts = [[a, words[k], b, words[1 - k], c] for k, (a, b, c) in zip(order, others, strict=True)]
    return Known(Release(texts), [f"author-{w}" for w in who])


@pytest.fixture
def encoder(backbone: Path) -> AttributeEncoder:
    return AttributeEncoder(
        type="attribute-encoder",
        model=str(backbone),
        layers=2,
        epochs=8,
        batch_size=32,
        learning_rate=0.01,
    )


@pytest.mark.parametrize("told", [True, False], ids=["order alone tells", "nothing tells"])
def test_it_reads_the_order_of_words_and_nothing_where_nothing_is(
    table: EmbeddingTable, encoder: AttributeEncoder, told: bool
) -> None:
    """Words and pairs in a row are equally frequent for both authors. Chance is tested exactly."""
    own, victims = orders(256, 0, told), orders(500, 1, told)
    words = Authorship(type="authorship")
    by_chance = [accuracy(words, table, own, victims)]
    found = accuracy(encoder, table, own, victims)
    if told:
        assert found > 0.99
    else:
        by_chance.append(found)
    for share in by_chance:
        assert binomtest(round(500 * share), 500, 0.5).pvalue > FALSE_ALARM


def test_fresh_noise_is_another_release_in_each_epoch(
    table: EmbeddingTable, encoder: AttributeEncoder
) -> None:
    """The own release tells nothing; those of its texts that the attacker makes tell all."""
    told, blank, asked = orders(256, 0, told=True), Release([["film"]] * 256), []

    def anew(seed: int, epoch: int) -> Release:
        asked.append((seed, epoch))
        return told.release

    own, victims = Known(replace(blank, anew=anew), told.values), orders(500, 1, told=True)
    found = accuracy(encoder, table, own, victims)
    assert binomtest(round(500 * found), 500, 0.5).pvalue > FALSE_ALARM and not asked
    fresh = encoder.model_copy(update={"fresh_noise": True})
    assert accuracy(fresh, table, own, victims) > 0.99
    assert asked == [(0, epoch) for epoch in range(1, encoder.epochs)]
