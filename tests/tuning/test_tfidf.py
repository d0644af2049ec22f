"""The tuner `tfidf`: texts whose class is known, what it writes, and what it serves."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from rapt.serving.model import Adapted
from rapt.serving.private_prediction import PrivatePrediction, teachers
from rapt.serving.protocol import Text
from rapt.tuning import tfidf
from rapt.tuning.config import Run
from rapt.tuning.parallel import train_cell
from rapt.tuning.tfidf import TfidfModel
from rapt.tuning.train_tfidf import train_seed
from rapt.tuning.tuners import Tfidf
from rapt.utils import files
from rapt.utils.errors import RaptError


@pytest.fixture
def run(run: Run) -> Run:
    return replace(run, tuner=Tfidf())


def sent(*words: str) -> Text:
    return Text(words=list(words), segment=[0] * len(words), plain=["so", "very", "plot"])


def test_the_word_that_tells_the_class_is_learnt_and_served(run: Run) -> None:
    """The user is given what the trained model said: of words, as many as in training."""
    trained = train_seed(replace(run, train=run.train.model_copy(update={"held_out": 0.25})))
    assert trained.result.metrics == {"accuracy": 1.0}
    assert {name: len(of) for name, of in trained.answers.items()} == {"train": 24, "test": 48}
    model = Adapted(run.adapter)
    test = files.read_parquet(run.release / "seed-0/test.parquet")
    texts = [sent(*words) for words in test["words"].to_pylist()[:32]]
    served = model.answer(texts)
    np.testing.assert_allclose(served, np.exp(trained.answers["test"][:32]), rtol=1e-5)
    assert {path.name for path in run.adapter.iterdir()} == {
        *(tfidf.TERMS, tfidf.HEAD, "rapt.json")
    }


def test_teachers_fit_to_shards_and_vote(run: Run, tmp_path: Path) -> None:
    train = run.train.model_copy(update={"shards": 2})
    for k in (0, 1):
        release = tmp_path / f"release-{k}"
        shutil.copytree(run.release, release)
        path = release / f"seed-{k}/train.parquet"
        rows = files.read_parquet(path).to_pylist()
        for row in train.tunes_on(96, 1 - k):
            rows[row]["words"] = ["another's"]
        files.write_parquet(path, pa.Table.from_pylist(rows))
        adapter = tmp_path / f"cell/seed-{k}"
        seed = replace(run, k=k, train=train, release=release, adapter=adapter)
        train_seed(seed)
        terms = files.read_parquet(seed.adapter / tfidf.TERMS)["term"].to_pylist()
        assert "another's" not in terms and "good" in terms
    hardly_private = PrivatePrediction(epsilon=1e6, queries=9, delta=1e-3)
    voted = teachers(tmp_path / "cell", hardly_private).answer([sent("good"), sent("bad")])
    assert voted == [[0.0, 1.0], [1.0, 0.0]]


def test_equal_fits_write_equal_bytes(run: Run, tmp_path: Path) -> None:
    again = replace(run, adapter=tmp_path / "again", reconstruction=None)
    assert train_seed(run) == train_seed(again)
    assert files.sha256(run.adapter) == files.sha256(again.adapter)


@pytest.mark.slow
def test_a_cell_is_fitted_in_processes_and_leaves_no_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAPT_WORKERS", "1")
    (trained,) = train_cell([run])
    assert trained == train_seed(replace(run, adapter=tmp_path / "again"))
    assert trained.checkpoint is None
    assert not (tmp_path / "home").exists()


def test_it_is_logistic_regression_on_tf_idf() -> None:
    """Beside scikit-learn's own, at the one penalty that is allowed; three classes of four."""
    rng = np.random.default_rng(0)
    words = rng.choice(["ab", "cd", "ef", "gh"], size=(60, 3))
    labels = [{"ab": 0, "cd": 1, "ef": 3, "gh": 3}[row[0]] for row in words]
    texts = [[row.tolist()] for row in words]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfidf, "STRENGTHS", (1.0,))
        found = TfidfModel.fit("mine", texts, labels, 4).logits(texts)
    lines = [" ".join(row) for row in words]
    parts = [
        TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    ]
    every = np.hstack([part.fit_transform(lines).toarray() for part in parts])
    expected = LogisticRegression(max_iter=1000).fit(every, labels).predict_log_proba(every)
    np.testing.assert_allclose(found[:, [0, 1, 3]], expected, atol=1e-3)
    assert np.isneginf(found[:, 2]).all()


def test_pairs_are_compared_and_kept(run: Run, tmp_path: Path) -> None:
    """Whether two segments are equal: no bag of all their words tells."""
    release = tmp_path / "pairs"
    statement = json.loads((run.release / "statement.json").read_text())
    files.write_json(release / "statement.json", statement)
    halves = list(product(("good", "bad", "so"), repeat=2)) * 12
    labels = [int(one == other) for one, other in halves]
    rows = {
        "words": [list(pair) for pair in halves],
        "segment": [[0, 1]] * len(halves),
        "label": labels,
    }
    for split in ("train", "test"):
        files.write_parquet(release / f"seed-0/{split}.parquet", pa.table(rows))
    trained = train_seed(replace(run, release=release))
    assert trained.result.metrics == {"accuracy": 1.0}
    texts = [Text(words=list(pair), segment=[0, 1], plain=[]) for pair in halves[:9]]
    served = np.argmax(Adapted(run.adapter).answer(texts), axis=1)
    assert served.tolist() == labels[:9]


def test_words_beyond_what_is_sent_are_not_read(run: Run) -> None:
    """The word that tells comes last, as the fourth."""
    short = run.train.model_copy(update={"max_tokens": 3})
    assert train_seed(replace(run, train=short)).result.metrics["accuracy"] < 0.8


def test_one_class_is_one_line(run: Run, tmp_path: Path) -> None:
    release = tmp_path / "one"
    files.write_json(release / "statement.json", {"kind": "classify", "labels": ["no", "yes"]})
    rows = pa.table({"words": [["good"]] * 5, "segment": [[0]] * 5, "label": [1] * 5})
    for split in ("train", "test"):
        files.write_parquet(release / f"seed-0/{split}.parquet", rows)
    with pytest.raises(RaptError, match=r"^movies-tiny, seed 0: got 5 training rows of each"):
        train_seed(replace(run, release=release))
