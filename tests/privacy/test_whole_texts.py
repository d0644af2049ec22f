"""Mechanisms that release something for a text as a whole."""

from collections.abc import Sequence

import numpy as np
import pytest

from rapt.audit.cases import PARAMETERS
from rapt.privacy.mechanisms import Adept, Purkayastha, SequenceRepresentation, Split
from rapt.privacy.mechanisms.base import Vectors
from rapt.privacy.released import TextVector
from rapt.privacy.whole_texts import ENCODER, SHORTER, WholeTextPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.privacy.units import KINDS, Doubled, made, prepared

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


def farthest_texts(table: EmbeddingTable, word: str, tokens: int) -> list[list[str]]:
    """A text of one word, and one of the word that lies farthest from it."""
    apart = np.linalg.norm(table.vectors - table.embed([word]), axis=1)
    return [[word] * tokens, [table.words[int(apart.argmax())]] * tokens]


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if not kind.releases.aligned])
def test_no_texts_are_told_apart_beyond_what_the_ledger_counts(
    table: EmbeddingTable, name: str, size: int
) -> None:
    """A text's loss, whether it has one word or a hundred, is at most that of its units."""
    how = PARAMETERS.get(name, {})
    privatizer = KINDS[name](**{**how, "layer": 0} if "layer" in how else how).privatizer(
        table=table, eta=2.0
    )
    texts = [privatizer.text(text, []) for text in farthest_texts(table, "nouna", size)]
    loss, _ = privatizer.loss_between(*texts)
    assert isinstance(privatizer, WholeTextPrivatizer)
    most = privatizer.units(texts[0]) * privatizer.max_loss
    assert loss <= most * (1 + 1e-6)
    assert np.isfinite(most) == bool(privatizer.claim.proof)
    if name in ("t2t-tokens", "split"):
        assert most == size * privatizer.max_loss and loss > most / 2


def test_of_a_model_without_a_bound_no_worst_case_is_known(table: EmbeddingTable) -> None:
    """Not of its states, and not of their mean, until that has been brought to one length."""
    for how in (Split(layer=1), SequenceRepresentation(encoder="minilm")):
        assert how.privatizer(table=table, eta=2.0).max_loss == np.inf
    assert Purkayastha().privatizer(table=table, eta=2.0).max_loss == 2 * np.pi


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
