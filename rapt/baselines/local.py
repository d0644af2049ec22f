"""Classifiers on the user's own machine: logistic regression on raw text, nothing sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt.tuning.tfidf import Text, counting, folds, of_pairs, rows, search, segments
from rapt.tuning.tfidf import features as tf_idf_of

if TYPE_CHECKING:
    import pyarrow as pa
    from sklearn.model_selection import StratifiedKFold

    from rapt.text.table import EmbeddingTable

# A row of features for each text, sparse or dense, (n, features).
Features = Callable[[Sequence[Text]], Any]


@dataclass(frozen=True)
class LocalModel:
    """A fitted classifier.

    Attributes:
        name: of its features: `tf-idf`, `embeddings` or `both`.
        log_loss: its cross entropy in nats, in cross-validation on the training rows.
        held_out: the logits of the training texts by models that were fitted without them.
        logits: the log-probability of each class for each text, float64 (n, classes).
    """

    name: str
    log_loss: float
    held_out: NDArray[np.float64]
    logits: Callable[[Sequence[Text]], NDArray[np.float64]]


def fit(
    task: str,
    texts: Sequence[Text],
    labels: Sequence[int],
    classes: int,
    table: EmbeddingTable,
) -> list[LocalModel]:
    """Fit a classifier on each kind of features; the best in cross-validation comes first.

    The features are TF-IDF of words, pairs of words and character n-grams, the mean of the words'
    public embeddings, and both. The training rows alone decide the penalty and the order, by cross
    entropy.

    Args:
        task: its name, for errors.
        texts: the training texts, all of as many segments.
        labels: the class of each, from 0 on.
        classes: how many there are.
        table: a public embedding table.

    Raises:
        RaptError: the rows are of one class, a class has one row, or no text has a word.
    """
    among = folds(f"tasks.{task}", labels)
    # One thread, so that the figures do not depend on how many cores there are.
    with threadpool_limits(1):
        fitted = [
            _fitted(name, of, texts, labels, classes, among)
            for name, of in _features(texts, table).items()
        ]
    return sorted(fitted, key=lambda model: model.log_loss)


def _fitted(
    name: str,
    features: Features,
    texts: Sequence[Text],
    labels: Sequence[int],
    classes: int,
    among: StratifiedKFold,
) -> LocalModel:
    from sklearn.model_selection import cross_val_predict

    every = features(texts)
    found = search(every, labels, among)
    model, known = found.best_estimator_, found.classes_

    def all_classes(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        full = np.full((len(scores), classes), -np.inf)  # of a class without training rows
        full[:, known] = scores
        return full

    def logits(given: Sequence[Text]) -> NDArray[np.float64]:
        with threadpool_limits(1):
            return all_classes(model.predict_log_proba(features(given)))

    held_out = cross_val_predict(model, every, labels, cv=among, method="predict_log_proba")
    return LocalModel(name, float(-found.best_score_), all_classes(held_out), logits)


def _features(texts: Sequence[Text], table: EmbeddingTable) -> dict[str, Features]:
    """Return each kind of features, fitted to the training texts without their labels."""
    from scipy import sparse
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    counts = counting(texts)
    # The length of a row is then about 1, as that of TF-IDF is.
    size = np.sqrt(table.dimension)
    mean = make_pipeline(
        FunctionTransformer(lambda segments: np.array([_mean(table, s) for s in segments])),
        StandardScaler(),
        FunctionTransformer(lambda rows: sparse.csr_array(rows / size)),
    )
    mean.fit(list(chain.from_iterable(texts)))
    tf_idf = partial(tf_idf_of, counts)
    embeddings = partial(rows, mean.transform)
    return {
        "tf-idf": tf_idf,
        "embeddings": embeddings,
        "both": lambda given: sparse.hstack([tf_idf(given), embeddings(given)]).tocsr(),
    }


def _mean(table: EmbeddingTable, words: Sequence[str]) -> NDArray[np.float64]:
    """Return the mean embedding of a text's words; the origin for a text without words."""
    if not words:
        return np.zeros(table.dimension)
    return np.asarray(table.embed(words).mean(axis=0, dtype=np.float64))


def texts(given: pa.Table) -> list[Text]:
    """Return the segments of tagged texts, a list of words each; both of a pair, always.

    Args:
        given: with the columns `words` and `segment` of data/tagged (docs/data.md).
    """
    words, places = given["words"].to_pylist(), given["segment"].to_pylist()
    return segments(words, places, of_pairs(places))
