"""Mechanisms that release something for a text as a whole."""

from collections.abc import Sequence

import numpy as np
import pytest

from rapt.privacy.mechanisms import Adept, SequenceRepresentation
from rapt.privacy.mechanisms.base import Vectors
from rapt.privacy.released import TextVector
from rapt.privacy.whole_texts import ENCODER, SHORTER
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.privacy.units import Doubled, made, prepared

WHOLE = ["sequence-representation", "adept", "doubled"]


@pytest.mark.parametrize("name", WHOLE)
def test_its_words_have_no_groups_and_it_takes_no_categories(
    table: EmbeddingTable, name: str
) -> None:
    privatizer = made(name, table)
    (text,) = prepared(privatizer)[:1]
    assert (text.noise_source, text.fates) == ((), ())
    assert privatizer.stated()[:3] == ("every text", "releases of a text", "")
    assert privatizer.stated().not_covered == [*privatizer.releases.gaps, SHORTER]
    with pytest.raises(RaptError, match=r"^categories: got some, expected none with mechanism"):
        privatizer.mechanism.privatizer(table=table, eta=1.0, categories=["noun"])
    with pytest.raises(RaptError, match=r"^eta: got .*, expected a number above 0"):
        privatizer.at(0.0)


def test_an_encoder_of_its_own_is_not_covered(table: EmbeddingTable) -> None:
    class Encoded(Adept):
        name = "encoded"

        def encode(self, texts: Sequence[Sequence[str]], table: EmbeddingTable) -> Vectors:
            return super().encode(texts, table)

    assert ENCODER in Encoded().privatizer(table=table, eta=1.0).stated().not_covered
    assert ENCODER not in Adept().privatizer(table=table, eta=1.0).stated().not_covered


def test_its_distances_are_those_of_texts(table: EmbeddingTable) -> None:
    """The means of texts are nearer to one another than words."""
    found = made("sequence-representation", table).distances
    words = made("t2t", table).distances
    median, farthest = found["a random text of 20 words (median)"], found["the farthest of them"]
    assert 0 < found["a random text of 20 words (closest 5 %)"] < median < farthest
    assert farthest < words["the farthest word"]
    assert found == made("sequence-representation", table).distances
    constant = made("adept", table).distances
    assert {*constant.values()} == {np.sqrt(8)}
    assert {*made("doubled", table).distances.values()} == {np.inf}


def test_a_text_is_bounded_by_the_distance_of_its_vector(table: EmbeddingTable) -> None:
    bound = made("sequence-representation", table, eta=3.0).bound
    assert (3 * bound).loss(2.0) == 18.0
    assert not made("doubled", table).bound.proven


def test_only_finite_vectors_of_its_dimension_are_possible(table: EmbeddingTable) -> None:
    privatizer = made("adept", table)
    (text,) = prepared(privatizer)[:1]
    assert privatizer.is_possible(text, "vector", np.zeros(8))
    assert not privatizer.is_possible(text, "vector", np.zeros(7))
    assert not privatizer.is_possible(text, "vector", np.full(8, np.nan))
    assert not privatizer.is_possible(text, "vector", None)


def test_a_grid_that_float32_cannot_hold_is_one_line(table: EmbeddingTable) -> None:
    privatizer = SequenceRepresentation(grid=2.0**-30).privatizer(table=table, eta=2.0)
    with pytest.raises(RaptError, match=r"^mechanism.grid: got .*, expected a larger power of two"):
        list(privatizer.release(prepared(privatizer)))


def test_adept_shortens_what_is_longer(table: EmbeddingTable) -> None:
    privatizer = Adept(clip=0.1).privatizer(table=table, eta=np.inf)
    for released in privatizer.release(prepared(privatizer)):
        assert isinstance(released, TextVector)
        assert np.linalg.norm(released.value("vector")) < 0.1 + 1e-6


def test_another_text_is_of_another_length(table: EmbeddingTable) -> None:
    privatizer = Doubled(share=1.0).privatizer(table=table, eta=1.0)
    texts = prepared(privatizer)
    for text, released in zip(texts, privatizer.release(texts), strict=True):
        assert len(released.words) == 2 * len(text.words) + 1
        assert released.value("segment") == [0] * len(released.words)
