"""AUG-PE: votes by hand, their sensitivity, and the noise of the paper's settings."""

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rapt.audit.one_run import lower_bound
from rapt.synthesis import aug_pe
from rapt.synthesis.aug_pe import AugPe, noise, votes
from rapt.synthesis.base import Draw, PrivateTexts, synthesize
from rapt.tuning.config import Sampling

POINTS = arrays(np.float64, st.tuples(st.integers(2, 6), st.just(2)), elements=st.integers(-9, 9))


@pytest.mark.parametrize(
    ("sigma", "n", "epsilon"),
    [
        (15.34, 1.9e6, 1.004),
        (8.03, 1.9e6, 2.001),
        (4.24, 1.9e6, 4.002),
        (11.60, 8_396, 1.000),
        (13.26, 75_316, 0.999),
    ],
)
def test_the_noise_is_the_paper_s(sigma: float, n: float, epsilon: float) -> None:
    """Ten rounds, δ = 1 / (n ln n): METHOD3's values of σ and ε."""
    assert noise(epsilon, 1 / (n * log(n)), 10) == pytest.approx(sigma, rel=2e-3)


def test_votes_by_hand() -> None:
    synthetic = np.array([[0.0], [10.0]])
    private = np.array([[1.0], [2.0], [9.0]])
    assert votes(private, synthetic).tolist() == [2, 1]
    assert votes(private[:2], synthetic).tolist() == [2, 0]
    assert votes(private, synthetic, neighbours=2) == pytest.approx(np.full(2, 3 / np.sqrt(2)))
    assert votes(private, synthetic, neighbours=9) == pytest.approx(np.full(2, 3 / np.sqrt(2)))


@given(POINTS, POINTS, st.integers(1, 4))
def test_a_text_more_changes_the_votes_by_the_norm_1(
    private: np.ndarray, synthetic: np.ndarray, neighbours: int
) -> None:
    every, less = (votes(some, synthetic, neighbours) for some in (private, private[1:]))
    assert np.linalg.norm(every - less) == pytest.approx(1)


class Scripted:
    """An author whose texts are the numbers 0, 1, 2 …, and which notes what it is asked."""

    asked: list[list[str]]

    def __init__(self, *_: Any) -> None:
        Scripted.asked = []

    def write(self, prompts: list[str]) -> list[str]:
        start = sum(map(len, self.asked))
        self.asked.append(list(prompts))
        return [str(start + place) for place in range(len(prompts))]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are numbers, and near as numbers are."""
    monkeypatch.setattr("rapt.synthesis.author.Author", Scripted)

    def encoder(texts: list[list[str]]) -> np.ndarray:
        angles = np.array([float(text[0]) for text in texts]) / 1000
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    monkeypatch.setattr("rapt.privacy.mechanisms.encoders.model_encoder", lambda name, cut: encoder)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The votes of each round; the first texts stay, whatever these say."""
    seen: list[np.ndarray] = []

    def chosen(self: AugPe, noised: np.ndarray, size: int, rng: Any) -> np.ndarray:
        seen.append(noised)
        return np.arange(size)

    monkeypatch.setattr(AugPe, "chosen", chosen)
    return seen


def test_the_texts_that_are_like_the_private_ones_stay_and_are_varied(
    scripted: None, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise: 4 private texts near 5, one near 2, and two texts to keep of six."""
    monkeypatch.setattr(aug_pe, "noise", lambda *_: 0.0)
    private = PrivateTexts(["5"] * 4 + ["2"], np.zeros(5, np.int64), ["any"])
    how = AugPe(model="tiny", delta=0.1, texts=2, rounds=2, variations=3, prompt="a {label} one",
                variation="{label}: {text}")  # fmt: skip
    made = synthesize(how, private, draw)
    assert Scripted.asked == [["a any one"] * 6, ["any: 5", "any: 2"] * 2]
    assert made.texts == [["5", "2"]]
    assert made.spent == {"noise": 0.0, "rounds": 2.0}


def test_a_class_without_a_text_votes_by_noise_alone(scripted: None, draw: Draw) -> None:
    private = PrivateTexts(["5"] * 4, np.zeros(4, np.int64), ["any", "none"])
    how = AugPe(model="tiny", delta=0.1, texts=4, rounds=1, counts=0.0, select="sample")
    made = synthesize(how, private, draw)
    assert list(map(len, made.texts)) == [2, 2]
    assert len(Scripted.asked) == 2


def test_the_noise_of_a_round_is_that_of_its_statement(
    scripted: None, draw: Draw, seen: list[np.ndarray]
) -> None:
    """2,000 texts without votes: the deviation is σ within 10 %, a false alarm in 10^9."""
    private = PrivateTexts(["5"], np.array([1]), ["none", "any"])
    how = AugPe(model="tiny", delta=0.1, texts=2000, rounds=2, variations=2, counts=0.0)
    made = synthesize(how, private, draw)
    assert len(seen) == 4
    for own in seen[:2]:
        assert own.std() == pytest.approx(made.spent["noise"], rel=0.1)
    assert abs(np.corrcoef(seen[0], seen[1])[0, 1]) < 0.15  # each round has noise of its own


@pytest.mark.parametrize(("share", "is_sound"), [(1.0, True), (0.1, False)])
def test_an_audit_in_one_run_finds_noise_that_is_too_small(
    share: float,
    is_sound: bool,
    scripted: None,
    draw: Draw,
    seen: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of 600 texts votes for its own number, if it is in; who sees the votes guesses which."""
    monkeypatch.setattr(aug_pe, "noise", lambda *law: share * noise(*law))
    is_in = np.random.default_rng(0).random(600) < 0.5
    texts = [str(number) for number in np.flatnonzero(is_in)]
    private = PrivateTexts(texts, np.zeros(len(texts), np.int64), ["any"])
    how = AugPe(model="tiny", delta=1e-5, texts=300, rounds=1, variations=2, counts=0.0)
    synthesize(how, private, draw._replace(epsilon=2.0))
    guessed = np.argsort(-seen[0])[:100]
    found = lower_bound(600, 100, int(is_in[guessed].sum()), 1e-5)
    assert (found <= 2.0) is is_sound


def test_a_tiny_model_s_texts_are_the_same_for_the_same_draw(
    private: PrivateTexts, draw: Draw
) -> None:
    how = AugPe(
        model="tiny",
        delta=0.01,
        texts=4,
        rounds=2,
        variations=2,
        sampling=Sampling(max_new_tokens=5),
    )
    first, again = (synthesize(how, private, draw).texts for _ in range(2))
    assert first == again
    assert synthesize(how, private, draw._replace(seed=1)).texts != first
