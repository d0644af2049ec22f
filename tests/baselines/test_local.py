"""Local models on texts whose best accuracy is known, and on real reviews."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest

from rapt.baselines import local
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError

FALSE_ALARM = 1e-6
NAMES = {"tf-idf", "embeddings", "both"}


def told(
    n: int, seed: int, right: float, words: tuple[str, str]
) -> tuple[list[local.Text], list[int]]:
    """Texts of a word that tells the class, rightly with this probability, among others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    said = np.where(rng.random(n) < right, labels, 1 - labels)
    return [[["the", words[each], "very"]] for each in said], labels.tolist()


@pytest.mark.parametrize("right", [1.0, 0.8, 0.5], ids=["certain", "noisy", "uniform"])
def test_every_model_reaches_the_optimum(table: EmbeddingTable, right: float) -> None:
    """Tested exactly; where the word tells nothing, no model is right beyond chance."""
    texts, labels = told(400, 0, right, ("nouna", "nounb"))
    victims, truth = told(1000, 1, right, ("nouna", "nounb"))
    models = local.fit("mine", texts, labels, 2, table)
    assert {model.name for model in models} == NAMES
    for model in models:
        hits = int((model.logits(victims).argmax(axis=1) == truth).sum())
        assert binomtest(hits, 1000, right).pvalue > FALSE_ALARM


def test_cross_validation_puts_the_model_first_that_can_tell(table: EmbeddingTable) -> None:
    """Both words are unknown to the table and have one vector: only their letters differ."""
    texts, labels = told(60, 0, 1.0, ("zzyx", "qqwk"))
    models = local.fit("mine", texts, labels, 2, table)
    losses = {model.name: model.log_loss for model in models}
    assert models[0].name == "tf-idf"
    assert losses["tf-idf"] < 0.1
    assert losses["embeddings"] > 0.9 * np.log(2)


def test_pairs_are_compared(table: EmbeddingTable) -> None:
    """Whether two segments are equal: no bag of all their words tells."""
    rng = np.random.default_rng(0)
    words = np.array(["nouna", "nounb", "nounc", "nound"])[rng.integers(4, size=(200, 2))]
    labels = (words[:, 0] == words[:, 1]).astype(int).tolist()
    texts = [[[one], [other]] for one, other in words.tolist()]
    best = local.fit("mine", texts, labels, 2, table)[0]
    assert (best.logits(texts).argmax(axis=1) == labels).all()


def test_a_class_without_training_rows_is_never_the_answer(table: EmbeddingTable) -> None:
    texts, labels = told(40, 0, 1.0, ("nouna", "nounb"))
    scores = local.fit("mine", texts, [2 * label for label in labels], 4, table)[0].logits(texts)
    assert scores.shape == (40, 4)
    assert np.isneginf(scores[:, [1, 3]]).all()
    assert np.allclose(np.exp(scores).sum(axis=1), 1)


def test_a_text_without_words_has_a_score(table: EmbeddingTable) -> None:
    texts, labels = told(40, 0, 1.0, ("nouna", "nounb"))
    for model in local.fit("mine", texts, labels, 2, table):
        assert np.isfinite(model.logits([[[]]])).all()


@pytest.mark.parametrize(("labels", "got"), [([1] * 5, "5"), ([0, 0, 0, 0, 1], "1, 4")])
def test_too_few_rows_are_one_line(table: EmbeddingTable, labels: list[int], got: str) -> None:
    with pytest.raises(RaptError, match=rf"tasks\.mine: got {got} training rows of each class, "):
        local.fit("mine", [[["nouna"]]] * 5, labels, 2, table)


def test_texts_without_words_are_one_line(table: EmbeddingTable) -> None:
    with pytest.raises(RaptError, match=r"^texts: got no word in 4 to train on, expected some"):
        local.fit("mine", [[[]]] * 4, [0, 1] * 2, 2, table)


def test_texts_of_tagged_rows_are_split_into_segments() -> None:
    words = [["a", "b", "c"], ["d"]]
    one = pa.table({"words": words, "segment": [[0, 0, 0], [0]]})
    assert local.texts(one) == [[["a", "b", "c"]], [["d"]]]
    pair = pa.table({"words": words, "segment": [[0, 1, 1], [0]]})
    assert local.texts(pair) == [[["a"], ["b", "c"]], [["d"], []]]


@pytest.mark.slow
def test_real_reviews_are_told_apart(table: EmbeddingTable, shared: Path) -> None:
    """Of SST-2, 600 training sentences tell beyond chance; equal fits give equal scores."""
    train, test = (
        files.read_parquet(shared / f"sst2/{split}.parquet").slice(0, count)
        for split, count in (("train", 600), ("test", 400))
    )
    texts, others = ([[t.split()] for t in rows["sentence"].to_pylist()] for rows in (train, test))
    first, again = (
        local.fit("sst2", texts, train["label"].to_pylist(), 2, table)[0] for _ in range(2)
    )
    scores = first.logits(others)
    assert np.array_equal(scores, again.logits(others))
    right = scores.argmax(axis=1) == test["label"].to_numpy()
    assert binomtest(int(right.sum()), 400, 0.5, "greater").pvalue < FALSE_ALARM


def test_few_labels_are_nested_subsets_that_learn(
    table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class is told by one word; 25 labels suffice, and a draw of one class is left out."""
    monkeypatch.setattr(local, "DRAWS", 2)
    texts, labels = told(130, 0, 1.0, ("nouna", "nounb"))
    found = list(local.by_labels("mine", texts, labels, 2, table))
    assert [size for size, _ in found] == [25, 50, 100] * local.DRAWS
    for _, model in found:
        assert (model.logits(texts).argmax(axis=1) == labels).mean() > 0.95
    one_class = [*[0] * 128, 1, 1]
    sizes = [size for size, _ in local.by_labels("mine", texts, one_class, 2, table)]
    assert len(sizes) < 3 * local.DRAWS
