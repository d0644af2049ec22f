"""What all synthesizers share: the sizes of the classes, and their noise."""

from collections.abc import Sequence
from math import exp
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.synthesis import SYNTHESIZERS
from rapt.synthesis.base import (
    Draw,
    Made,
    PrivateTexts,
    Synthesizer,
    noisy,
    shared_out,
    synthesize,
    without_empty,
)


class Told(Synthesizer):
    """Writes its own order."""

    type: Literal["told"] = "told"

    def write(self, private: PrivateTexts, sizes: Sequence[int], draw: Draw) -> Made:
        return Made([["text"] * size for size in sizes], {"epsilon": draw.epsilon}, 0)


def test_the_sizes_cost_their_share_and_the_texts_have_the_rest(
    private: PrivateTexts, draw: Draw
) -> None:
    made = synthesize(Told(model="tiny", delta=0.01, texts=10, counts=0.25), private, draw)
    assert made.spent["epsilon"] == 3.0
    assert sum(map(len, made.texts)) == 10
    equal = synthesize(Told(model="tiny", delta=0.01, texts=10, counts=0.0), private, draw)
    assert (equal.spent["epsilon"], [*map(len, equal.texts)]) == (4.0, [5, 5])


def test_counts_have_two_sided_geometric_noise() -> None:
    """P(k) ∝ e^(−ε|k|): the shares of 200,000 draws within five deviations."""
    rng, epsilon = np.random.default_rng(0), 0.7
    counts = np.full(200_000, 50)
    drawn = noisy(counts, epsilon, rng) - 50
    for k in (-2, -1, 0, 1, 2):
        share = (1 - exp(-epsilon)) / (1 + exp(-epsilon)) * exp(-epsilon * abs(k))
        assert (drawn == k).mean() == pytest.approx(share, abs=5 * (share / len(counts)) ** 0.5)
    assert noisy(np.zeros(1000, np.int64), 0.1, rng).min() == 0


def test_the_exact_counts_are_nowhere_in_the_sizes(private: PrivateTexts, draw: Draw) -> None:
    """Over 40 copies the sizes vary, as exact ones would not."""
    how = Told(model="tiny", delta=0.01, texts=1000, counts=0.05)
    copies = [draw._replace(names=(k, "films")) for k in range(40)]
    sizes = {len(synthesize(how, private, copy).texts[0]) for copy in copies}
    assert len(sizes) > 20


@given(st.integers(0, 500), st.lists(st.integers(0, 1000), min_size=1, max_size=6))
def test_shares_add_up_and_are_in_proportion(total: int, counts: list[int]) -> None:
    shares = shared_out(total, np.array(counts))
    assert sum(shares) == total
    weights = np.array(counts) if sum(counts) else np.ones(len(counts))
    assert (abs(np.array(shares) - total * weights / weights.sum()) < 1).all()


def test_a_text_of_which_nothing_is_seen_is_empty() -> None:
    made = without_empty([["a", " \u200b", "\ufeff"], ["\0"]], {})
    assert (made.texts, made.empty) == ([["a"], []], 3)


def test_the_registry_names_each_class() -> None:
    assert {name: kind.__name__ for name, kind in SYNTHESIZERS.data.items()} == {
        "generator": "Generator",
        "aug-pe": "AugPe",
    }
