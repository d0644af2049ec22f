"""Membership by the loss and by shadow models, on losses and confidences of known laws."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

from rapt.attacks import candidates
from rapt.attacks.membership import FEW, Lira, confidences, scores
from rapt.attacks.membership_scores import Ranking
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.tuning.config import Run
from rapt.utils import files
from tests.attacks.conftest import made
from tests.tuning.conftest import release as release
from tests.tuning.conftest import run as run

N = 3000  # members, and as many others
SPREAD = 2.0  # of the texts' own ease
# How far from the truth an AUC is with a chance of 1e-6, at most (Birnbaum and Klose, 1957).
REACH = 4.9 * np.sqrt(1 / (4 * N))


def auc(shadows: int, online: bool | None, learnt: float) -> float:
    """Of confidences whose mean rises by `learnt` in every second text that is tuned on.

    None: of the confidences themselves, without shadows.
    """
    rng = np.random.default_rng(0)
    labels, ease = rng.integers(2, size=2 * N), rng.normal(0, SPREAD, 2 * N)
    rise = np.where(np.arange(2 * N) % 2, learnt, 0)

    def tune(tuned_on: NDArray[np.bool_]) -> NDArray[np.float64]:
        own = expit(ease + rise * tuned_on + rng.normal(size=tuned_on.shape))
        rest = 1 - own
        return np.where(np.arange(2) == labels[:, None], own[..., None], rest[..., None])

    members = np.arange(2 * N) < N
    if online is None:
        asked = confidences(tune(members), labels)
    else:
        score = Lira(type="lira", shadows=shadows, online=online).fit(labels, tune, 1)
        asked = score(tune(members))
    return Ranking.of(asked[members], asked[~members]).metrics()["auc"]


def expected(online: bool | None, learnt: float) -> float:
    """The AUC with shadows without number."""
    if not online:  # it does not know which texts are learnt
        width = 1.0 if online is False else 1 + SPREAD**2
        return float((0.5 + norm.cdf(learnt / np.sqrt(2 * width))) / 2)
    mixed = norm.cdf(learnt / 2)  # one of both texts tells nothing: a ratio of 0
    return float((0.5 + 2 * mixed + norm.cdf(learnt / np.sqrt(2))) / 4)


@pytest.mark.parametrize("online", [None, False, True])
def test_with_many_shadows_it_is_as_good_as_who_knows_the_distributions(
    online: bool | None,
) -> None:
    assert auc(128, online, 2.0) == pytest.approx(expected(online, 2.0), abs=REACH)


@pytest.mark.parametrize("shadows", [8, 128])
def test_online_beats_offline_and_offline_a_threshold_for_all(shadows: int) -> None:
    assert auc(shadows, True, 2.0) > auc(shadows, False, 2.0) + 0.02
    assert auc(shadows, False, 2.0) > auc(shadows, None, 2.0) + 0.05


def test_with_few_shadows_a_small_gain_is_told_better_offline() -> None:
    """Four shadows that knew the text estimate its gain too badly: often with the wrong sign."""
    assert auc(8, False, 0.5) > auc(8, True, 0.5) + 0.01
    assert auc(128, False, 0.5) < auc(128, True, 0.5) + 0.005


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("shadows", [4, 128])
def test_where_nothing_is_learnt_nothing_is_told(shadows: int, online: bool) -> None:
    """Once in a million."""
    assert auc(shadows, online, 0.0) == pytest.approx(0.5, abs=REACH)


@pytest.mark.parametrize("shadows", [6, 2 * FEW])
def test_the_score_is_the_ratio_of_two_normals(shadows: int) -> None:
    """SciPy's, with one variance for all candidates where shadows are few."""
    rng = np.random.default_rng(2)
    asked, found = rng.normal(size=5), rng.normal(size=(shadows, 5)) * np.arange(1, 6)
    tuned_on = rng.permuted(np.tile(np.arange(shadows) % 2 == 0, (5, 1)), axis=1).T
    logs = {}
    for kind, chosen in (("in", tuned_on), ("out", ~tuned_on)):
        own = [found[chosen[:, i], i] for i in range(5)]
        variances = np.array([np.var(one, ddof=1) for one in own])
        if shadows < 2 * FEW:
            variances[:] = variances.mean()
        logs[kind] = norm(np.array([one.mean() for one in own]), np.sqrt(variances))
    both = scores(asked, found, tuned_on, online=True)
    assert both == pytest.approx(logs["in"].logpdf(asked) - logs["out"].logpdf(asked))
    alone = scores(asked, found, tuned_on, online=False)
    assert norm.cdf(alone) == pytest.approx(logs["out"].cdf(asked))


def test_a_confidence_is_the_log_odds_of_the_own_class() -> None:
    probabilities = np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]])
    found = confidences(np.stack([probabilities] * 2), np.array([1, 0]))
    assert found[:, 0] == pytest.approx(logit([0.8, 0.8]))
    assert np.isfinite(found).all() and (found[:, 1] > 600).all()


def test_every_candidate_is_in_half_of_the_shadows() -> None:
    seen = []

    def tune(tuned_on: NDArray[np.bool_]) -> NDArray[np.float64]:
        seen.append(tuned_on)
        return np.full((*tuned_on.shape, 2), 0.5)

    flat = np.full((50, 2), 0.5)
    told = Lira(type="lira", shadows=8).fit(np.zeros(50, int), tune, 0)(flat)
    assert np.array_equal(told, np.zeros(50))  # all say the same
    (tuned_on,) = seen
    assert tuned_on.shape == (8, 50)
    assert set(tuned_on.sum(0)) == {4}
    assert len({row.tobytes() for row in tuned_on}) == 8


def by_loss(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    attack = made("membership-loss")
    fitted = attack.fit(labels, lambda tuned_on: pytest.fail("it needs no models"), 0)
    scores: np.ndarray = fitted(probabilities)
    return scores


def test_the_smaller_the_loss_the_more_a_text_looks_like_a_member() -> None:
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet((1, 1, 1), 50), rng.integers(3, size=50)
    loss = -np.log([row[label] for row, label in zip(probabilities, labels, strict=True)])
    found = by_loss(probabilities, labels)
    assert found.argsort().tolist() == (-loss).argsort().tolist()


def scored(n: int, loss: float, seed: int) -> np.ndarray:
    """Of n texts whose losses have an exponential distribution of this mean."""
    rng = np.random.default_rng(seed)
    labels, p = rng.integers(3, size=n), np.exp(-loss * rng.exponential(size=n))
    rest = (1 - p) * rng.random(n)
    probabilities = np.stack([rest, 1 - p - rest, p], axis=1)
    for row, label in zip(probabilities, labels, strict=True):
        row[[label, 2]] = row[[2, label]]
    return by_loss(probabilities, labels)


@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0], ids=["told", "in between", "null"])
def test_of_two_known_losses_it_reaches_their_auc(loss: float) -> None:
    """P(X < Y) = 1 / (1 + loss) of exponential X, of mean `loss`, and Y, of mean 1.

    At 1e-6, by the variance that Hanley and McNeil (1982) give for these very distributions.
    """
    members, others = 2000, 3000
    auc = 1 / (1 + loss)
    both, each = 2 * auc**2 / (1 + auc), auc / (2 - auc)  # P(X, X' < Y) and P(X < Y, Y')
    variance = (
        auc * (1 - auc) + (members - 1) * (both - auc**2) + (others - 1) * (each - auc**2)
    ) / (members * others)
    found = Ranking.of(scored(members, loss, 0), scored(others, 1.0, 1)).metrics()
    assert found["auc"] == pytest.approx(auc, abs=4.9 * np.sqrt(variance) + 1e-9)
    assert found["empirical_privacy"] == 1 - found["auc"]


def test_shadows_are_tuned_on_all_that_was_chosen(
    run: Run, table: EmbeddingTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider holds texts out, the attacker none; candidates are asked as they are written."""
    monkeypatch.chdir(tmp_path)
    tuned: list[Run] = []
    written: list[list[list[str]]] = []

    def train_cell(runs: list[Run]) -> list[SimpleNamespace]:
        tuned.extend(runs)
        asked = files.read_parquet(runs[0].release / f"seed-{runs[0].k}/test.parquet")
        assert asked["words"].to_pylist() == words
        logits = np.log(np.tile([0.2, 0.8], (4, 1)))
        return [SimpleNamespace(checkpoint=None, answers={"test": logits}) for _ in runs]

    def write(splits: dict[str, pa.Table], folder: Path) -> None:
        written.append(splits["train"]["words"].to_pylist())

    monkeypatch.setattr(candidates, "train_cell", train_cell)
    words = [["good"], ["bad", "film"], ["so"], ["plot"]]
    texts = {"words": words, "segment": [[0] * len(text) for text in words], "label": [0, 1, 0, 1]}
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=1.0)
    copies: Any = [
        SimpleNamespace(k=k, plain=None, privatizer=privatizer, write=write) for k in (5, 6)
    ]
    chosen = np.array([[True, False, True, False], [False, True, True, True]])
    holding = run.train.model_copy(update={"held_out": 0.25})
    found = candidates.shadow_answers(
        chosen,
        pa.table(texts),
        copies,
        lambda folder, k, _: replace(run, release=folder, k=k, train=holding),
        {"labels": ["no", "yes"]},
    )
    assert written == [[words[0], words[2]], words[1:]]
    assert [(one.k, one.train.held_out) for one in tuned] == [(5, 0.0), (6, 0.0)]
    assert found == pytest.approx(np.tile([0.2, 0.8], (2, 4, 1)))
