"""Linkage on toys whose best attack is known, and the ranks of what it finds."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Pairs, Release
from rapt.attacks.linkage import LikelihoodLinkage, by_length
from rapt.attacks.scores import linkage_scores
from rapt.audit.cases import PARAMETERS, small_table
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import MECHANISMS, T2T, mechanism
from rapt.privacy.mechanisms.base import VectorMechanism
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.released import NewText
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import FALSE_ALARM, NONE, made, streamed
from tests.privacy.units import Doubled

HOW: LikelihoodLinkage = made("linkage")


def released(privatizer: AnyPrivatizer[Any], texts: Any, seed: int) -> Release:
    """Release texts, each with noise of its own."""
    tagged = [privatizer.text(text, ["X"] * len(text)) for text in texts]
    noisy = [
        type(text)(text.words, text.groups, partial(stream, seed, place))
        for place, text in enumerate(tagged)
    ]
    return Release.of(privatizer.release(noisy))


@pytest.mark.parametrize("apart", [0.0, 0.2, 0.8])
def test_of_two_vectors_it_finds_the_right_one_as_often_as_anyone_can(apart: float) -> None:
    """Laplace noise of scale b: 1 − ½·e^(−Δ/2b). Tested exactly."""
    vectors = np.array([[0.0, 0.1], [apart, 0.1]])
    table = small_table(["nouna", "nounb"], vectors, np.ones(2))
    privatizer = mechanism(type="adept").privatizer(table=table, eta=5.0)
    truth, texts = np.random.default_rng(0).integers(2, size=4000), [["nouna"], ["nounb"]]
    seen = released(privatizer, [texts[one] for one in truth], 1)
    scores = HOW.fit(privatizer, Pairs([], seen), 0)(seen, [*streamed(texts, 0)])
    right = (scores.argmax(axis=1) == truth) if apart else truth == 0
    share = 1 - np.exp(-apart * 5.0 / 2 / 2) / 2  # b = 2·C / η
    assert binomtest(int(right.sum()), 4000, share).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["sequence-representation", "token-representation"])
def test_spherical_noise_has_the_density_of_its_length(table: EmbeddingTable, name: str) -> None:
    """And a text of another number of vectors is impossible."""
    privatizer = mechanism(type=name).privatizer(table=table, eta=4.0)
    texts = [["nouna", "nounb"], ["nounb", "verba"], ["nouna"]]
    seen = released(privatizer, texts[:1], 1)
    prepared = [privatizer.text(text, ["NOUN"] * len(text)) for text in texts]
    scores = HOW.fit(privatizer, Pairs([], seen), 0)(seen, prepared)
    assert seen.vectors is not None
    for found, (text, own) in zip(scores[0], zip(texts, prepared, strict=True), strict=True):
        (before,) = privatizer.originals([own])
        if len(before) == len(seen.vectors):
            apart = np.linalg.norm(seen.vectors - before, axis=1)
            # But for the grid that both are rounded to.
            assert found == pytest.approx(-4.0 * apart.sum(), abs=0.05)
        else:
            assert found == -np.inf and len(text) == 1


def test_from_own_pairs_it_links_words_nearly_as_well_as_by_the_true_channel(
    table: EmbeddingTable,
) -> None:
    """With the true P(y|w) it is optimal. Half of the words stay here, of six."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=5.0)
    rng, words = np.random.default_rng(0), table.words[:6]
    own, texts = (rng.choice(words, (size, 3)).tolist() for size in (1000, 120))
    pairs = Pairs(own, Release(list(privatizer.privatize(streamed(own, 1)))))
    seen = Release(list(privatizer.privatize(streamed(texts, 2))))
    channel = estimate(privatizer, range(len(table.words)), 5000, 0).matrix.toarray()
    likely = np.log(channel + 1e-9)
    before, after = (np.array([table.rows(text) for text in of]) for of in (texts, seen.words))
    best = likely[before[None], after[:, None]].sum(axis=2)
    scores = HOW.fit(privatizer, pairs, 3)(seen, streamed(texts, 0))
    found, most = (linkage_scores(of, 0).metrics() for of in (scores, best))
    blind = linkage_scores(by_length(privatizer, seen, streamed(texts, 0)), 0).metrics()
    assert most["auc"] - 0.03 < found["auc"] and most["auc"] > blind["auc"] + 0.2
    assert most["linked"] / 2 < found["linked"]


def test_another_text_is_found_by_what_it_means(table: EmbeddingTable) -> None:
    """The release has the words in another order, and one more; chance is 1 of 60."""
    rng = np.random.default_rng(0)
    own, texts = (rng.choice(table.words, (size, 4)).tolist() for size in (400, 60))
    said = [Release([[*reversed(text), "the"] for text in some]) for some in (own, texts)]
    anything: Any = SimpleNamespace(table=table, releases=NewText, mechanism=Doubled())
    scores = HOW.fit(anything, Pairs(own, said[0]), 0)(said[1], streamed(texts, 0))
    assert linkage_scores(scores, 0).metrics()["linked"] > 0.5


def test_ranks_share_the_places_of_ties() -> None:
    """Of 4: the first is alone on top, the second shares it, the third is last, all tie."""
    scores = np.array([[3.0, 1, 1, 1], [2, 2, 0, 0], [1, 1, 0, 1], [5, 5, 5, 5]])
    found = linkage_scores(scores, 0)
    by_text = {name: found.ratios[name][0].tolist() for name in ("linked", "rank", "auc")}
    assert by_text["linked"] == [1.0, 0.5, 0.0, 0.25]
    assert by_text["rank"] == [1.0, 1.5, 4.0, 2.5]
    assert by_text["auc"] == pytest.approx([1.0, 5 / 6, 0.0, 0.5])
    assert found.metrics()["empirical_privacy"] == pytest.approx(1 - 1.75 / 4)


def test_among_fewer_candidates_chance_is_one_of_them() -> None:
    """Of 200 texts without any trace; six standard deviations."""
    scores = np.random.default_rng(0).normal(size=(200, 200))
    found = linkage_scores(scores, 0).metrics()
    for size in (10, 100):
        spread = 6 * np.sqrt(1 / size / 200)
        assert found[f"linked_{size}"] == pytest.approx(1 / size, abs=spread)
    tied = linkage_scores(np.zeros((200, 200)), 0).metrics()
    found = [tied[name] for name in ("linked", "linked_10", "auc")]
    assert found == pytest.approx([1 / 200, 0.1, 0.5])


def test_the_number_of_words_alone_tells_some(table: EmbeddingTable) -> None:
    texts = streamed([["the"], ["the", "nouna"], ["nouna", "the"]], 0)
    seen = Release([list(text.words) for text in texts])
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=5.0)
    assert linkage_scores(by_length(privatizer, seen, texts), 0).metrics()["linked"] == 2 / 3
    states = mechanism(type="split", layer=0).privatizer(table=table, eta=5.0)
    noisy = Release.of(states.release(texts))
    assert (by_length(states, noisy, texts) == by_length(privatizer, seen, texts)).all()
    tokens = mechanism(type="t2t-tokens").privatizer(table=table, eta=5.0)
    assert (by_length(tokens, seen, texts) == by_length(privatizer, seen, texts)).all()
    whole = mechanism(type="adept").privatizer(table=table, eta=5.0)
    assert (by_length(whole, Release.of(whole.release(texts)), texts) == 0).all()
    assert HOW.fit(privatizer, NONE, 0)(Release([]), []).shape == (0, 0)


def test_clean_words_are_linked_whether_the_table_knows_them_or_not(table: EmbeddingTable) -> None:
    texts = [["nouna", "unseen"], ["nounb", "unseen"], ["nouna", "unheard"], ["Nounb", "the"]]
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=np.inf)
    prepared = [privatizer.text(text, ["NOUN"] * 2) for text in texts]
    seen = Release.of(privatizer.release(prepared))
    spelled = [[*map(table.form, text)] for text in texts]
    scores = HOW.fit(privatizer, Pairs(spelled, seen), 0)(seen, prepared)
    assert linkage_scores(scores, 0).metrics()["linked"] == 1.0


VECTORS = [n for n, kind in MECHANISMS.items() if issubclass(kind, VectorMechanism)]


@pytest.mark.parametrize("name", VECTORS)
def test_a_density_is_that_of_what_is_released(table: EmbeddingTable, name: str) -> None:
    """∫ p(z|x') dz = 1, as the mean of p(z|x') / p(z|x) over releases z of x. Six standard errors.

    A constant, one number for all coordinates, and words in clear have none, but are undone.
    """
    given = {"weight": 1.1} if name == "ome-as-written" else PARAMETERS.get(name, {})
    made: Any = mechanism(type=name, **given)
    assert made.has_density
    if name in ("cape-as-coded", "dpnr-as-coded", "sap"):
        return
    eta = 0.5
    privatizer = made.privatizer(table=table, eta=eta, categories=None)
    texts = [privatizer.text(text, ["NOUN"]) for text in (["nouna"], ["nounb"])]
    one, other = (vectors.astype(float) for vectors in privatizer.originals(texts))
    seen, rows = made.release(np.tile(one, (20_000, 1)), np.random.default_rng(0), eta), (20_000, 1)
    logs = [made.log_density(np.tile(x, rows), seen, eta) for x in (one, other)]
    ratios = np.exp(logs[1] - logs[0])
    assert abs(ratios.mean() - 1) < 6 * ratios.std() / np.sqrt(len(ratios))
    assert ratios.std() > 0.01
