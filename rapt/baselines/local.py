"""Classifiers on the user's own machine: logistic regression on raw text, nothing sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import pyarrow as pa

    from rapt.text.table import EmbeddingTable

# A text as its segments, each a list of words: one, or the two of a pair.
Text = Sequence[Sequence[str]]
# A row of features for each text, sparse or dense, (n, features).
Features = Callable[[Sequence[Text]], Any]

FOLDS = 5
# 1 / the penalty on squared weights: cross-validation chooses.
STRENGTHS = tuple(float(10.0**power) for power in range(-2, 3))
STEPS = 1000  # of the optimizer, at most


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
    public embeddings, and both. The training rows alone decide the penalty and the order. They do
    so by cross entropy, as logits have to be calibrated to be combined with others.

    Args:
        task: its name, for errors.
        texts: the training texts, all of as many segments.
        labels: the class of each, from 0 on.
        classes: how many there are.
        table: a public embedding table.

    Raises:
        RaptError: the rows are of one class, or a class has one row.
    """
    rows = sorted(Counter(labels).values())
    if len(rows) < 2 or rows[0] < 2:
        raise RaptError(
            f"tasks.{task}: got {', '.join(map(str, rows))} training rows of each class, expected "
            "two rows or more of two classes at least. Raise rows.train."
        )
    # One thread, so that the figures do not depend on how many cores there are.
    with threadpool_limits(1):
        fitted = [
            _fitted(name, of, texts, labels, classes)
            for name, of in _features(texts, table).items()
        ]
    return sorted(fitted, key=lambda model: model.log_loss)


def _fitted(
    name: str, features: Features, texts: Sequence[Text], labels: Sequence[int], classes: int
) -> LocalModel:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict

    count = min(FOLDS, *Counter(labels).values())
    folds = StratifiedKFold(count, shuffle=True, random_state=0)
    every = features(texts)
    search = GridSearchCV(
        LogisticRegression(max_iter=STEPS), {"C": STRENGTHS}, cv=folds, scoring="neg_log_loss"
    ).fit(every, labels)
    model, known = search.best_estimator_, search.classes_

    def all_classes(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.full((len(scores), classes), -np.inf)  # of a class without training rows
        found[:, known] = scores
        return found

    def logits(given: Sequence[Text]) -> NDArray[np.float64]:
        with threadpool_limits(1):
            return all_classes(model.predict_log_proba(features(given)))

    held_out = cross_val_predict(model, every, labels, cv=folds, method="predict_log_proba")
    return LocalModel(name, float(-search.best_score_), all_classes(held_out), logits)


def _features(texts: Sequence[Text], table: EmbeddingTable) -> dict[str, Features]:
    """Return each kind of features, fitted to the training texts without their labels."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    counted = make_union(
        TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    )
    # The length of a row is then about 1, as that of TF-IDF is.
    size = np.sqrt(table.dimension)
    mean = make_pipeline(
        FunctionTransformer(lambda segments: np.array([_mean(table, s) for s in segments])),
        StandardScaler(),
        FunctionTransformer(lambda rows: sparse.csr_array(rows / size)),
    )
    segments = list(chain.from_iterable(texts))
    counted.fit([" ".join(segment) for segment in segments])
    mean.fit(segments)

    def rows(of: Callable[[list[Sequence[str]]], Any], given: Sequence[Text]) -> Any:
        """Return a text's row; of a pair, the sum and the absolute difference of its segments'."""
        first, *second = [of(list(place)) for place in zip(*given, strict=True)]
        return (
            sparse.hstack([first + second[0], abs(first - second[0])]).tocsr() if second else first
        )

    def tf_idf(given: Sequence[Text]) -> Any:
        return rows(lambda place: counted.transform([" ".join(words) for words in place]), given)

    def embeddings(given: Sequence[Text]) -> Any:
        return rows(mean.transform, given)

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


def texts(rows: pa.Table) -> list[Text]:
    """Return the segments of tagged texts, a list of words each; both of a pair, always.

    Args:
        rows: with the columns `words` and `segment` of data/tagged (docs/data.md).
    """
    words, places = rows["words"].to_pylist(), rows["segment"].to_pylist()
    count = 1 + any(1 in place for place in places)
    return [
        [[w for w, at in zip(text, place, strict=True) if at == k] for k in range(count)]
        for text, place in zip(words, places, strict=True)
    ]
