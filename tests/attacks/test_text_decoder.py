"""A decoder of one vector a text, on texts whose vectors tell all, or nothing."""

import numpy as np
import pytest

from rapt.attacks.base import Texts, Vectors
from rapt.attacks.text_decoder import TextDecoder, recovered

VOCABULARY, LENGTH, TEXTS = 20, 5, 1200


def sample(seed: int, n: int) -> tuple[Vectors, Texts]:
    """Texts of different words in alphabetical order, and their words as 0 or 1."""
    rng = np.random.default_rng(seed)
    rows = np.sort([rng.choice(VOCABULARY, LENGTH, replace=False) for _ in range(n)], axis=1)
    vectors = np.zeros((n, VOCABULARY), np.float32)
    np.put_along_axis(vectors, rows, 1, axis=1)
    return vectors, [[f"w{row:02d}" for row in text] for text in rows]


@pytest.fixture(scope="module")
def decoder() -> TextDecoder:
    return TextDecoder.fitted(*sample(0, TEXTS), seed=0, epochs=8, width=64)


def share(guesses: Texts, texts: Texts) -> float:
    found, whole = recovered(guesses, texts)
    return float(found.sum() / whole.sum())


def test_a_vector_that_tells_the_text_gives_it_away(decoder: TextDecoder) -> None:
    vectors, texts = sample(1, 100)
    assert share(decoder.texts(vectors), texts) > 0.9


def test_the_vectors_of_other_texts_tell_no_more_than_a_blind_guess(decoder: TextDecoder) -> None:
    """A blind guess of five words finds 5/20; each word is in a guess or not.

    Hoeffding's bound for 400 texts, of which each has a share from 0 to 1: 1e-6 of false alarms.
    """
    (vectors, _), (_, texts) = sample(1, 400), sample(2, 400)
    slack = np.sqrt(np.log(2e6) / (2 * 400))
    assert abs(share(decoder.texts(vectors, beams=1), texts) - LENGTH / VOCABULARY) < slack


def test_equal_seeds_write_equal_texts() -> None:
    known, (vectors, _) = sample(0, 64), sample(1, 8)
    once, again = (
        TextDecoder.fitted(*known, seed=3, epochs=1, width=64).texts(vectors) for _ in range(2)
    )
    assert once == again


def test_a_word_counts_as_often_as_both_texts_have_it() -> None:
    found, whole = recovered([["a", "a", "b"], []], [["a", "b", "b", "c"], ["a"]])
    assert (found.tolist(), whole.tolist()) == ([2, 0], [4, 1])
