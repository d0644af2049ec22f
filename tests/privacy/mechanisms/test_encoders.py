"""Encoders of whole texts, and the public coordinates that are fitted for them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from rapt.privacy.mechanisms import encoders as module
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.mechanisms.base import means
from rapt.privacy.mechanisms.encoders import FramedText, ModelEncoder, frame, public_texts
from rapt.privacy.whole_texts import ENCODER
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import NOUNS
from tests.privacy.units import prepared
from tests.tuning.conftest import backbone as backbone

TEXTS = [["a", "good", "film"], [], ["bad"], ["a", "good", "film"], ["film"] * 30]


def framed(name: str, **given: str | int) -> FramedText:
    made = mechanism(name, **given)
    assert isinstance(made, FramedText)
    return made


def test_a_text_is_the_mean_of_its_positions_hidden_states(backbone: Path) -> None:
    """Read one by one by Transformers, special tokens included."""
    encoded = ModelEncoder(str(backbone))(TEXTS)
    tokenizer, model = (kind.from_pretrained(backbone) for kind in (AutoTokenizer, AutoModel))
    for text, vector in zip(TEXTS, encoded, strict=True):
        with torch.inference_mode():
            ids = tokenizer([text], is_split_into_words=True, return_tensors="pt")
            expected = model.eval()(**ids).last_hidden_state[0].mean(0).numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_a_text_s_vector_does_not_depend_on_the_others(backbone: Path) -> None:
    """Up to rounding, whatever the batch; and it is read once."""
    encode = ModelEncoder(str(backbone))
    whole = encode(TEXTS)
    alone = np.concatenate([ModelEncoder(str(backbone))([text]) for text in TEXTS])
    np.testing.assert_allclose(whole, alone, atol=1e-5)
    np.testing.assert_array_equal(whole[0], whole[3])
    assert len(encode._means) == 4


def test_what_a_model_keeps_is_bounded(backbone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    encode = ModelEncoder(str(backbone))
    first = [encode([text])[0] for text in TEXTS]
    assert len(encode._means) <= 3
    np.testing.assert_allclose(encode(TEXTS), first, atol=1e-5)


def test_a_text_longer_than_the_encoder_is_one_line(backbone: Path) -> None:
    longest = [["film"] * 100, ["bad"], ["film"] * 70]
    line = r"^encoder: got 2 texts of up to 102 tokens, expected at most 64\. Leave"
    with pytest.raises(RaptError, match=line):
        ModelEncoder(str(backbone))(longest)
    cut = ModelEncoder(str(backbone), cut=True)(longest)
    assert cut.shape[0] == 3 and np.array_equal(cut[0], cut[2])
    np.testing.assert_array_equal(cut[0], ModelEncoder(str(backbone))([["film"] * 62])[0])


def test_an_encoder_that_is_not_there_is_one_line(table: EmbeddingTable) -> None:
    with pytest.raises(RaptError, match=r"^model: got 'nowhere', expected a folder that is there"):
        framed("cape", encoder="nowhere").encode([["a"]], table)


def test_a_model_that_writes_is_no_encoder(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = module.models.config(backbone)
    config.is_encoder_decoder = True
    monkeypatch.setattr(module.models, "config", lambda _: config)
    with pytest.raises(RaptError, match=r"^encoder: got .* of type bert, expected an encoder"):
        ModelEncoder(str(backbone))


@pytest.mark.parametrize("name", ["sequence-representation", "adept", "purkayastha", "cape"])
def test_a_mechanism_releases_what_a_model_encodes(
    table: EmbeddingTable, backbone: Path, name: str
) -> None:
    """In the model's dimension; what it was made from is not covered, and the statement says so."""
    more = {"clip": 100.0} if name == "adept" else {}
    made = mechanism(name, encoder=str(backbone), **more)
    privatizer = made.privatizer(table=table, eta=1e6)
    assert privatizer.dimension == 32
    assert ENCODER in privatizer.stated().not_covered
    texts = prepared(privatizer)
    for text, released in zip(texts, privatizer.release(texts), strict=True):
        clean = privatizer.unprotected(text.words).value("vector")
        np.testing.assert_allclose(released.value("vector"), clean, atol=0.05)
    assert {*privatizer.distances}  # of public texts, by the same encoder


def test_public_texts_are_of_the_table_s_words_and_always_the_same(table: EmbeddingTable) -> None:
    texts = public_texts(table)
    assert texts == public_texts(table)
    assert {len(text) for text in texts} == {20} and len(texts) == 400
    assert {word for text in texts for word in text} <= {*table.words}


def test_coordinates_are_fitted_on_public_texts_alone(table: EmbeddingTable) -> None:
    """Their mean is 0, their axes are at right angles, and the first varies the most."""
    made = framed("purkayastha", dimensions=3)
    centre, axes = frame(made, table)
    vectors = means(public_texts(table), table)
    np.testing.assert_allclose(centre, vectors.mean(axis=0))
    assert axes is not None
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
    spread = ((vectors - centre) @ axes).var(axis=0)
    assert (np.diff(spread) < 0).all()
    assert spread[0] == pytest.approx(np.linalg.eigvalsh(np.cov(vectors.T, ddof=0))[-1])
    one = made.encode([NOUNS[:4]], table)
    assert one.shape == (1, 3)
    np.testing.assert_allclose(made.encode([["verba"], NOUNS[:4]], table)[1:], one)


@pytest.mark.parametrize("dimensions", [0, 8, 999])
def test_without_fewer_coordinates_they_stay_as_they_are(
    table: EmbeddingTable, dimensions: int
) -> None:
    made = framed("vmf", dimensions=dimensions)
    assert frame(made, table).axes is None
    vector = means([NOUNS], table)[0] - frame(made, table).centre
    np.testing.assert_allclose(made.encode([NOUNS], table)[0], vector / np.linalg.norm(vector))


@pytest.mark.parametrize("name", ["vmf", "purkayastha", "gaussian", "sphere-noise", "cape", "ome"])
@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("eta", [1e-9, 1e9])
def test_few_dimensions_and_extreme_etas_give_numbers_or_one_line(
    table: EmbeddingTable, name: str, dimensions: int, eta: float
) -> None:
    privatizer = framed(name, dimensions=dimensions).privatizer(table=table, eta=eta)
    if dimensions == 1 and name in ("vmf", "purkayastha"):
        with pytest.raises(RaptError, match=rf"^mechanism {name}: got vectors of 1 dimension"):
            list(privatizer.release(prepared(privatizer)))
        return
    for released in privatizer.release(prepared(privatizer)):
        assert np.isfinite(released.value("vector")).all()
