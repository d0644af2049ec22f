"""Authorship by words and their order, where the best success is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.attributes import AttributeHidden, Authorship
from rapt.attacks.base import Inference, Release
from rapt.text.table import EmbeddingTable
from tests.attacks.authors import Known, accuracy
from tests.attacks.authors import hidden as hidden
from tests.attacks.test_bayesian import FALSE_ALARM
from tests.tuning.conftest import backbone as backbone

AUTHORSHIP = Authorship(type="authorship", longest=2, strength=10.0)


def writers(n: int, likes: float, words: tuple[str, str], seed: int) -> Known:
    """Texts of two words, each with such a chance the one of the two that its author likes."""
    rng = np.random.default_rng(seed)
    who = rng.integers(2, size=n)
    drawn = np.where(rng.random((n, 2)) < likes, who[:, None], 1 - who[:, None])
    return Known(
        Release([[words[w] for w in text] for text in drawn]),
        [f"author-{w}" for w in who],
    )


@pytest.mark.parametrize("likes", [1.0, 0.8, 0.5], ids=["identity", "two words", "uniform"])
@pytest.mark.parametrize("kind", [Authorship, AttributeHidden])
def test_it_reaches_the_optimum_of_two_known_styles(
    table: EmbeddingTable, hidden: AttributeHidden, kind: type[Inference], likes: float
) -> None:
    """Two equal words tell with p² / (p² + (1 − p)²), two different ones nothing: p in all.

    Tested exactly. Where authors like both words alike, no text says whose it is.
    """
    how = hidden if kind is AttributeHidden else AUTHORSHIP
    own, victims = (writers(2000, likes, ("good", "bad"), seed) for seed in (0, 1))
    found = accuracy(how, table, own, victims)
    assert binomtest(round(2000 * found), 2000, likes).pvalue > FALSE_ALARM


def test_authorship_reads_the_order_of_words(table: EmbeddingTable) -> None:
    own = Known(Release([["nouna", "nounb"], ["nounb", "nouna"]] * 20), ["a", "b"] * 20)
    assert accuracy(AUTHORSHIP, table, own, own) == 1
    words_alone = AUTHORSHIP.model_copy(update={"longest": 1})
    assert accuracy(words_alone, table, own, own) == 0.5


def test_characters_tell_what_no_word_does(table: EmbeddingTable) -> None:
    """No word comes twice, and each author's words end alike: chance without characters.

    Tested exactly.
    """
    who = np.random.default_rng(0).integers(2, size=1000)
    words = [[f"{number:04}{('ise', 'ize')[w]}"] for number, w in enumerate(who)]
    values = [f"author-{w}" for w in who]
    own, victims = (Known(Release(words[i::2]), values[i::2]) for i in (0, 1))
    found = accuracy(AUTHORSHIP, table, own, victims)
    assert binomtest(round(500 * found), 500, 0.5).pvalue > FALSE_ALARM
    spelled = AUTHORSHIP.model_copy(update={"characters": 3})
    assert accuracy(spelled, table, own, victims) == 1
