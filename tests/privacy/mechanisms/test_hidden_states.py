"""Hidden states of a text: what holds of them, and that layer 0 is the token representation."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from rapt.audit.cases import small_table
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.mechanisms import encoders, mechanism
from rapt.privacy.mechanisms.gaussian import gaussian_delta
from rapt.privacy.mechanisms.hidden_states import DpForwardAsCoded
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.tuning.conftest import backbone as backbone

TEXTS = [["good", "film"], ["so", "very", "unlikely"], ["bad"]]


def at(table: EmbeddingTable, eta: float = 3.0, **how: Any) -> AnyPrivatizer[Any]:
    return mechanism(**how).privatizer(table=table, eta=eta)


def prepared(privatizer: AnyPrivatizer[Any], texts: Any) -> list[Any]:
    return [
        privatizer.text(text, ["X"] * len(text), stream=partial(stream, 7, place))
        for place, text in enumerate(texts)
    ]


def vectors(privatizer: AnyPrivatizer[Any], texts: Any) -> list[Any]:
    return [text.vectors for text in privatizer.release(prepared(privatizer, texts))]


def test_with_no_layers_split_is_the_token_representation_draw_by_draw(
    table: EmbeddingTable,
) -> None:
    texts = [["nouna", "verba", "nouna"], ["unknown", "the"]]
    split = vectors(at(table, type="split", layer=0), texts)
    for one, other in zip(
        split, vectors(at(table, type="token-representation"), texts), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_states_are_those_of_the_model_after_its_first_layers(
    table: EmbeddingTable, backbone: Path
) -> None:
    """With the special tokens; a batch changes nothing but rounding."""
    privatizer = at(table, np.inf, type="split", encoder=str(backbone), layer=1)
    found = vectors(privatizer, TEXTS)
    tokenizer, model = AutoTokenizer.from_pretrained(backbone), AutoModel.from_pretrained(backbone)
    for text, states in zip(TEXTS, found, strict=True):
        read = tokenizer([text], is_split_into_words=True, return_tensors="pt")
        expected = model(**read, output_hidden_states=True).hidden_states[1][0].detach().numpy()
        np.testing.assert_allclose(states, expected, atol=2.0**-10)
    assert [len(states) for states in found] == [4, 7, 3]
    assert privatizer.dimension == 32


def test_one_changed_word_moves_all_states_and_the_metric_counts_them_all(
    table: EmbeddingTable, backbone: Path
) -> None:
    kind: Any = mechanism(type="split", encoder=str(backbone), layer=1)
    one, other = kind.states([["good", "film", "so"], ["bad", "film", "so"]], table)
    moved = np.linalg.norm(one - other, axis=1)
    assert (moved > 1e-4).all()
    flat = [states.ravel()[None] for states in (one, other)]
    distance = kind.distance(at(table, type="t2t").spaces()[0], *flat)
    assert distance[0] == pytest.approx(moved.sum(), rel=1e-5)


@pytest.mark.parametrize("name", ["split", "privtune"])
def test_texts_of_several_lengths_are_compared_as_far_as_the_shortest(
    backbone: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A word of several tokens makes public texts of as many words differ in length."""
    monkeypatch.setattr(encoders, "WORDS_OF_TEXT", 4)
    words = small_table(["good", "film", "unlikely"], np.eye(3), np.ones(3))
    privatizer = at(words, type=name, encoder=str(backbone), layer=1)
    assert all(distance > 0 for distance in privatizer.distances.values())
    assert privatizer.mechanism.encode(TEXTS, words).shape == (3, 3 * 32)


def test_sparing_sends_the_weightiest_words_in_clear_with_all_their_tokens(
    table: EmbeddingTable, backbone: Path
) -> None:
    """None of the words is in the table, so that the repeated one weighs most."""
    text = ["so", "unlikely", "film", "unlikely", "good"]
    given = {"encoder": str(backbone), "layer": 1}
    (clear,) = vectors(at(table, np.inf, type="split", **given), [text])
    (seen,) = vectors(at(table, type="sap", spared=0.4, **given), [text])
    same = (clear == seen).all(axis=1)
    assert same.tolist() == [False, False, True, True, True, False, True, True, True, False, False]
    (noisy,) = vectors(at(table, type="sap", spared=0.0, **given), [text])
    np.testing.assert_array_equal(noisy, vectors(at(table, type="split", **given), [text])[0])


def test_privtune_leads_each_word_to_the_neighbours_of_its_neighbours(
    table: EmbeddingTable, backbone: Path
) -> None:
    """All tokens of a word are led alike, those between texts not at all."""
    given = {"encoder": str(backbone), "layer": 1}
    (states,) = vectors(at(table, np.inf, type="split", **given), [["nouna", "unlikely"]])
    own: dict[str, Any] = given | {"type": "privtune", "neighbours": 2, "heavier": 1.0}
    (led,) = vectors(at(table, np.inf, **own, pull=1.0), [["nouna", "unlikely"]])
    of_words = mechanism(type="split", **given).words_of_tokens(["nouna", "unlikely"])
    np.testing.assert_array_equal(states[of_words < 0], led[of_words < 0])
    near = np.linalg.norm(table.vectors[:, None] - table.vectors, axis=2).argsort(1)[:, :3]
    nouna = table.words.index("nouna")
    further = sorted({*near[near[nouna]].ravel()} - {*near[nouna]}) or sorted(
        set(near[near[nouna]].ravel())
    )
    alone = vectors(
        at(table, np.inf, type="split", **given), [[table.words[row]] for row in further]
    )
    goal = np.mean([one[1:-1].mean(axis=0) for one in alone], axis=0)
    np.testing.assert_allclose(
        led[of_words == 0], goal[None].repeat(sum(of_words == 0), 0), atol=2e-3
    )
    (none,) = vectors(at(table, **own | {"pull": 0.0, "heavier": 0.0}), [["nouna", "unlikely"]])
    (split,) = vectors(at(table, type="split", **given), [["nouna", "unlikely"]])
    np.testing.assert_array_equal(none, split)


def test_dp_forward_pads_clips_and_hides_the_number_of_tokens(
    table: EmbeddingTable, backbone: Path
) -> None:
    given = {"encoder": str(backbone), "layer": 1, "tokens": 5, "clip": 2.0}
    privatizer = at(table, np.inf, type="dp-forward", **given)
    for states, length in zip(vectors(privatizer, TEXTS), (4, 5, 3), strict=True):
        assert states.shape == (5, 32) and (states[length:] == 0).all()
        assert np.linalg.norm(states) == pytest.approx(2.0, rel=1e-5)
    assert [len(one) for one in vectors(at(table, type="dp-forward", **given), TEXTS)] == [5] * 3


@pytest.mark.parametrize(("claimed", "holds"), [(1, 2.15), (8, 19.1), (250, 845)])
def test_dp_forward_as_coded_holds_more_than_twice_its_epsilon(
    claimed: float, holds: float
) -> None:
    """METHOD: half the sensitivity at δ 1e-5."""
    made = DpForwardAsCoded()
    assert made.holds(claimed) == pytest.approx(holds, rel=0.005)
    assert made.claim.loss(claimed, 1.0) == made.holds(claimed)
    mended: Any = mechanism(type="dp-forward")
    mu = 2 * mended.clip / mended.size(claimed)
    assert gaussian_delta(mu, claimed) == pytest.approx(1e-5, rel=1e-6)


def test_a_layer_that_the_model_has_not_is_one_line(table: EmbeddingTable, backbone: Path) -> None:
    with pytest.raises(RaptError, match=r"^layer: got 2, expected at most 1, as the provider"):
        vectors(at(table, encoder=str(backbone), type="split", layer=2), TEXTS)
