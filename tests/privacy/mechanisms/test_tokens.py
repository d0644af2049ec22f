"""T2T on tokens: its units are those that Qu et al. count, and its noise is T2T's."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from rapt.audit.cases import points
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable


def at(table: EmbeddingTable, eta: float, type: str = "t2t-tokens") -> AnyPrivatizer[Any]:
    return mechanism(type).privatizer(table=table, eta=eta)


def prepared(privatizer: AnyPrivatizer[Any], text: str, seed: int = 0) -> Any:
    words = text.split()
    return privatizer.text(words, ["X"] * len(words), stream=partial(stream, seed, text))


def released(privatizer: AnyPrivatizer[Any], text: str, seed: int = 0) -> list[str]:
    (one,) = privatizer.release([prepared(privatizer, text, seed)])
    return list(one.words)


@pytest.fixture(scope="module")
def nearly_none(minilm: EmbeddingTable) -> AnyPrivatizer[Any]:
    return at(minilm, 1e6)


def test_the_units_are_the_29_523_of_qu_et_al(minilm: EmbeddingTable) -> None:
    """BERT's uncased vocabulary without 5 special and 994 unused tokens (METHOD2, part C)."""
    assert len(minilm.tokens) == 29_523
    assert len(minilm.tokenize(["unbelievably", "good"])) == 6


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("The unbelievably good film", "the unbelievably good film"),
        ("Überraschung was n't", "uberraschung was n ' t"),
        ("", ""),
        ("\u200b", ""),
    ],
)
def test_with_hardly_any_noise_pieces_make_their_words_again(
    nearly_none: AnyPrivatizer[Any], text: str, after: str
) -> None:
    assert released(nearly_none, text) == after.split()


def test_what_no_token_stands_for_is_always_replaced(nearly_none: AnyPrivatizer[Any]) -> None:
    (word,) = released(nearly_none, "\N{SLIGHTLY SMILING FACE}")
    assert word not in ("\N{SLIGHTLY SMILING FACE}", "[UNK]")


def test_pieces_get_noise_of_their_own(minilm: EmbeddingTable) -> None:
    """At an η where a word of five pieces hardly ever stays whole, and a word of one often does."""
    noisy = at(minilm, 75)
    whole = [released(noisy, "unbelievably", seed) == ["unbelievably"] for seed in range(60)]
    single = [released(noisy, "good", seed) == ["good"] for seed in range(60)]
    assert sum(single) > 30 > sum(whole)


def test_where_words_are_the_tokens_it_is_t2t_draw_by_draw() -> None:
    table = points(8)
    for seed in range(20):
        text = "w1 w3 w1 unknown w7"
        assert released(at(table, 9.0), text, seed) == released(at(table, 9.0, "t2t"), text, seed)


def test_the_loss_is_that_of_the_tokens_and_only_between_as_many(minilm: EmbeddingTable) -> None:
    one = at(minilm, 2.0)
    texts = [prepared(one, text) for text in ("a good film", "a bad movie", "a long good film")]
    vectors = [minilm.embed(list(text.words)) for text in texts]
    gaps = np.linalg.norm(vectors[0].astype(float) - vectors[1], axis=1)
    assert one.loss_between(texts[0], texts[1])[0] == pytest.approx(2 * gaps.sum())
    assert one.loss_between(texts[0], texts[2])[0] == np.inf
    assert 0 < one.distances["the farthest of them"] < np.inf
