"""Inversion by the table or a language model, where its success is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from rapt.attacks.base import Pairs, Public, Release
from rapt.attacks.inversion import MaskedToken
from rapt.attacks.language_model import WordPredictor
from rapt.audit.cases import small_table
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import FALSE_ALARM, NONE, MakePublic, Shares, made
from tests.attacks.test_language_model import FREQUENCY, WORDS
from tests.tuning.conftest import backbone as backbone

MASKED = made("masked-token")


def known_of(table: EmbeddingTable) -> Public:
    return Public(table, np.zeros(len(table.words), np.int64), None)


@pytest.mark.parametrize("copies", [2, 4, 9])
def test_of_two_words_averaging_recovers_what_the_mean_of_k_noises_allows(copies: int) -> None:
    """Words 2 apart, Gaussian noise of deviation 2: right with Φ(√k / 2), tested exactly."""
    table = small_table(["left", "right"], np.array([[-1.0, 0.0], [1.0, 0.0]]), np.ones(2))
    rng, n = np.random.default_rng(0), 4000
    truth = rng.integers(0, 2, n)
    releases = []
    for _ in range(copies):
        vectors = (table.vectors[truth] + rng.normal(0, 2, (n, 2))).astype(np.float32)
        nearest = [[table.words[int(x > 0)]] for x in vectors[:, 0]]
        releases.append(Release(nearest, vectors))
    guessed = made("averaging", copies=copies).fit(known_of(table), NONE, 0).words(releases)
    right = sum(text == [table.words[w]] for text, w in zip(guessed, truth, strict=True))
    assert binomtest(right, n, float(norm.cdf(np.sqrt(copies) / 2))).pvalue > FALSE_ALARM


def test_words_are_averaged_by_their_vectors_and_kept_where_all_agree(
    table: EmbeddingTable,
) -> None:
    first, second = [["nouna", "unseen"], ["verba"]], [["nounb", "unseen"], ["verba"]]
    guessed = made("averaging").fit(known_of(table), NONE, 0)
    mean = table.vectors[:2].mean(axis=0)
    nearest = table.words[int(((table.vectors - mean) ** 2).sum(axis=1).argmin())]
    assert guessed.words([Release(first), Release(second)]) == [[nearest, "unseen"], ["verba"]]


def teach(monkeypatch: pytest.MonkeyPatch, places: Shares) -> None:
    """Have a model that knows nouna's and nounb's chances at each place, of every text in turn."""

    def predictor(self: MaskedToken, public: Public) -> Callable[[Sequence[str]], Shares]:
        def predict(text: Sequence[str]) -> Shares:
            chances = np.zeros((len(text), len(public.table.words)))
            chances[:, :2] = np.resize(places, (len(text), 2))
            return chances

        return predict

    monkeypatch.setattr(MaskedToken, "predictor", predictor)


def test_masking_reaches_the_best_success_of_who_does_not_look(
    public: MakePublic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each place max_w π(w), tested exactly; what is released does not matter."""
    rng, n, chances = np.random.default_rng(0), 2000, np.array([[0.9, 0.1], [0.4, 0.6]])
    known = public(np.eye(2))
    teach(monkeypatch, chances)
    truth = np.stack([rng.choice(known.table.words[:2], n, p=own) for own in chances], axis=1)
    guessed = np.array(MASKED.fit(known, NONE, 0).words([Release([["nouna"] * 2] * n)]))
    for right, share in zip((guessed == truth).sum(axis=0), chances.max(axis=1), strict=True):
        assert binomtest(right, n, share).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("texts", "guesses"),
    [
        # The model has no chances for the words of the group that stays: the first will do.
        ([["the", "unheard", "nounb"]], [["nounc", "nounb", "nouna"]]),
        # Clean text is no success of an attack that masks it. Nor are words that the table has in
        # a group that stays: in a text they may be of another.
        (
            [["Nounb", "Unheard", "The"], ["Nouna", "nounb"]],
            [["nouna", "nounb", "nounc"], ["nouna", "nounb"]],
        ),
    ],
    ids=["words that stay are guessed too", "clean"],
)
def test_masking_where_nouna_and_nounb_alternate(
    public: MakePublic,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[list[str]],
    guesses: list[list[str]],
) -> None:
    teach(monkeypatch, np.eye(2))
    known = public(np.array([[0.6, 0.4], [0.4, 0.6]]))
    assert MASKED.fit(known, NONE, 0).words([Release(texts)]) == guesses


def test_masking_predicts_the_words_of_the_table(model: Path) -> None:
    rng = np.random.default_rng(0)
    table = small_table(WORDS, rng.standard_normal((len(WORDS), 2)), FREQUENCY)
    predict = made("masked-token", model=str(model)).predictor(known_of(table))
    text = ["so", "bad", "film"]
    alone = WordPredictor(model, table.words, table.frequency)
    np.testing.assert_array_equal(list(predict(text)), list(alone(text)))


def test_the_nearest_row_is_the_best_guess_between_two_words() -> None:
    """Words 2 apart, noise of Laplace's size along them: right with 1 − ½·e^(−η). Exactly."""
    table = small_table(["left", "right"], np.array([[-1.0, 0.0], [1.0, 0.0]]), np.ones(2))
    privatizer = mechanism("token-representation").privatizer(table=table, eta=1.5)
    truth = np.random.default_rng(0).integers(0, 2, 4000)
    texts = [privatizer.text([table.words[word]], ["X"]) for word in truth]
    copies = [
        Release.of(
            privatizer.release(
                replace(text, stream=partial(stream, k, place)) for place, text in enumerate(texts)
            )
        )
        for k in range(9)
    ]
    known = Public.of(privatizer, None)
    own = Pairs([["left", "right"]], NONE.released)
    one, mean = (made("nearest-row", copies=k).fit(known, own, 0).words(copies[:k]) for k in (1, 9))
    assert one == [[word] for text in copies[0].words for word in text]
    right = [
        sum(g == [table.words[w]] for g, w in zip(of, truth, strict=True)) for of in (one, mean)
    ]
    assert right[1] > right[0] > 2000


def test_states_are_compared_with_own_states_word_by_word(
    table: EmbeddingTable, backbone: Path
) -> None:
    """Without noise every own word is found again, whatever its number of tokens."""
    kind = mechanism(type="split", encoder=str(backbone), layer=1)
    privatizer = kind.privatizer(table=table, eta=1e6)
    texts = [["good", "unlikely", "film"], ["so", "good"], []]
    prepared = [privatizer.text(text, ["X"] * len(text)) for text in texts]
    seen = Release.of(privatizer.release(prepared)).by_word(privatizer, prepared)
    assert [len(text) for text in seen.words] == [3, 2, 0]
    fitted = made("nearest-row").fit(Public.of(privatizer, None), Pairs(texts, seen), 0)
    assert fitted.words([seen]) == texts
    assert (
        made("nearest-row", rows=3)
        .fit(Public.of(privatizer, None), Pairs(texts, seen), 0)
        .words([seen])[0]
        == texts[0]
    )


def test_a_word_that_was_cut_off_has_no_state(table: EmbeddingTable, backbone: Path) -> None:
    kind = mechanism(type="dp-forward", encoder=str(backbone), layer=1, tokens=3)
    privatizer = kind.privatizer(table=table, eta=9.0)
    text = privatizer.text(["good", "film", "so", "good"], ["X"] * 4)
    assert privatizer.places_of_words(text).tolist() == [1, 2, -1, -1]
    seen = Release.of(privatizer.release([text])).by_word(privatizer, [text])
    assert seen.vectors is not None
    assert (seen.vectors[2:] == 0).all() and (seen.vectors[:2] != 0).all()
