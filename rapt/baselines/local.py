"""Classifiers on the user's own machine: logistic regression on raw text, nothing sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt.privacy.streams import stream
from rapt.tuning.tfidf import Found, Text, counting, folds, of_pairs, rows, search, segments
from rapt.tuning.tfidf import features as tf_idf_of
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import pyarrow as pa

    from rapt.text.table import EmbeddingTable

# Of the subsets with few labels: the smallest, how many sizes, and subsets of each.
FEWEST, SIZES, DRAWS = 25, 8, 4
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
            _fitted(name, search(every, labels, among), of, classes)
            for name, of, every in _features(texts, table)
        ]
    return sorted(fitted, key=lambda model: model.log_loss)


def by_labels(
    task: str,
    texts: Sequence[Text],
    labels: Sequence[int],
    classes: int,
    table: EmbeddingTable,
) -> Iterator[tuple[int, LocalModel]]:
    """Fit the best classifier to few rows: DRAWS subsets of 25, 50, … 3,200 of them, below all.

    It answers how many labels a release is worth. The subsets of one draw contain each other. Those
    are left out to which `fit` cannot be fitted; the arguments are its own.

    Yields:
        the number of rows, and the model.
    """
    sizes = [size for k in range(SIZES) if (size := FEWEST * 2**k) < len(labels)]
    for draw in range(DRAWS):
        order = stream(0, task, "labels", str(draw)).permutation(len(labels))
        for size in sizes:
            some = order[:size]
            own = [labels[row] for row in some]
            with suppress(RaptError):
                yield size, fit(task, [texts[row] for row in some], own, classes, table)[0]


def _fitted(name: str, found: Found, features: Features, classes: int) -> LocalModel:
    model = found.model

    def all_classes(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        full = np.full((len(scores), classes), -np.inf)  # of a class without training rows
        full[:, model.classes_] = scores
        return full

    def logits(given: Sequence[Text]) -> NDArray[np.float64]:
        with threadpool_limits(1):
            return all_classes(model.predict_log_proba(features(given)))

    return LocalModel(name, found.log_loss, all_classes(found.held_out), logits)


def _features(texts: Sequence[Text], table: EmbeddingTable) -> Iterator[tuple[str, Features, Any]]:
    """Yield each kind of features, fitted without labels, and those of the training texts."""
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
    tf_idf, embeddings = partial(tf_idf_of, counts), partial(rows, mean.transform)
    of_words, of_vectors = tf_idf(texts), embeddings(texts)

    def both(first: Any, second: Any) -> Any:
        return sparse.hstack([first, second]).tocsr()

    yield "tf-idf", tf_idf, of_words
    yield "embeddings", embeddings, of_vectors
    yield "both", lambda given: both(tf_idf(given), embeddings(given)), both(of_words, of_vectors)


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
