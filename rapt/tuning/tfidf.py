"""TF-IDF of words and of their characters, and logistic regression on features of texts.

The tuner `tfidf` has this of released words, the user's own baseline of raw ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import log_softmax

from rapt.utils import files
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

# A text as its segments, each a list of words: one, or the two of a pair.
Text = Sequence[Sequence[str]]

FOLDS = 5
# 1 / the penalty on squared weights: cross-validation chooses.
STRENGTHS = tuple(float(10.0**power) for power in range(-2, 3))
STEPS = 1000  # of the optimizer, at most
# The n-grams that are counted: of words, and of characters within words.
GRAMS: dict[str, dict[str, Any]] = {
    "words": {"token_pattern": r"\S+", "ngram_range": (1, 2)},
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}
TERMS, HEAD = "terms.parquet", "head.safetensors"


def segments(
    words: Sequence[Sequence[str]],
    places: Sequence[Sequence[int]],
    pair: bool,
    most: int | None = None,
) -> list[Text]:
    """Split each text into its segments, always both of a pair; all others are read as one.

    Args:
        words: of each text.
        places: for each word its segment.
        pair: whether texts are pairs.
        most: leading words that a segment keeps; None: all.
    """
    if not pair:
        return [[text[:most]] for text in words]
    return [
        [[word for word, at in zip(text, place, strict=True) if at == k][:most] for k in (0, 1)]
        for text, place in zip(words, places, strict=True)
    ]


def of_pairs(places: Sequence[Sequence[int]]) -> bool:
    """Whether texts are pairs, by the segment of each word: some have two, and none has more."""
    return max(chain.from_iterable(places), default=0) == 1


def counting(texts: Sequence[Text]) -> list[TfidfVectorizer]:
    """Return the counts of each kind of GRAMS, fitted to texts without their labels.

    Raises:
        RaptError: no text has a word.
    """
    every = [" ".join(segment) for segment in chain.from_iterable(texts)]
    if not any(every):
        raise RaptError(
            f"texts: got no word in {len(texts)} to train on, expected some. Correct their column."
        )
    return [_vectorizer(kind).fit(every) for kind in GRAMS]


def features(counts: Sequence[TfidfVectorizer], texts: Sequence[Text]) -> Any:
    """Return a row of TF-IDF for each text, sparse (n, terms)."""
    from scipy import sparse

    def of(place: list[Sequence[str]]) -> Any:
        lines = [" ".join(words) for words in place]
        return sparse.hstack([each.transform(lines) for each in counts]).tocsr()

    return rows(of, texts)


def rows(of: Callable[[list[Sequence[str]]], Any], texts: Sequence[Text]) -> Any:
    """Return a text's row; of a pair, the sum and the absolute difference of its segments'."""
    from scipy import sparse

    first, *second = [of(list(place)) for place in zip(*texts, strict=True)]
    return sparse.hstack([first + second[0], abs(first - second[0])]).tocsr() if second else first


def folds(key: str, labels: Sequence[int]) -> StratifiedKFold:
    """Return the folds of the cross-validation.

    Raises:
        RaptError: the rows are of one class, or a class has one row; the line begins with `key`.
    """
    from sklearn.model_selection import StratifiedKFold

    sizes = sorted(Counter(labels).values())
    if len(sizes) < 2 or sizes[0] < 2:
        raise RaptError(
            f"{key}: got {', '.join(map(str, sizes))} training rows of each class, expected two "
            "rows or more of two classes at least. Raise rows.train."
        )
    return StratifiedKFold(min(FOLDS, sizes[0]), shuffle=True, random_state=0)


class Found(NamedTuple):
    """Logistic regression with the penalty that cross-validation chose.

    Attributes:
        model: fitted to all rows.
        log_loss: in nats, the mean over the rows.
        held_out: log-probabilities of each row by a model without it, float64 (n, classes).
    """

    model: LogisticRegression
    log_loss: float
    held_out: NDArray[np.float64]


def search(every: Any, labels: Sequence[int], among: StratifiedKFold) -> Found:
    """Fit logistic regression to features (n, f); the least cross entropy decides the penalty.

    It decides, and not the accuracy, as logits have to be calibrated to be combined with others.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    models = [LogisticRegression(C=strength, max_iter=STEPS) for strength in STRENGTHS]
    held_out = [
        cross_val_predict(model, every, labels, cv=among, method="predict_log_proba")
        for model in models
    ]
    own = np.arange(len(labels)), np.unique(labels, return_inverse=True)[1]
    losses = [float(-scores[own].mean()) for scores in held_out]
    best = int(np.argmin(losses))
    return Found(models[best].fit(every, labels), losses[best], held_out[best])


@dataclass(frozen=True, eq=False)
class TfidfModel:
    """A fitted classifier of words.

    Attributes:
        counts: its terms, of each kind of GRAMS.
        weight: float64 (classes, f); f is the number of terms, twice that for pairs.
        bias: float64 (classes,); −∞ for a class without training rows.
    """

    counts: list[TfidfVectorizer]
    weight: NDArray[np.float64]
    bias: NDArray[np.float64]

    @classmethod
    def fit(
        cls, key: str, texts: Sequence[Text], labels: Sequence[int], classes: int
    ) -> TfidfModel:
        """Fit to n training texts, all of as many segments; see `folds` for `key` and errors."""
        among = folds(key, labels)
        counts = counting(texts)
        found = search(features(counts, texts), labels, among)
        model, known = found.model, found.model.classes_
        weight, bias = np.zeros((classes, model.coef_.shape[1])), np.full(classes, -np.inf)
        bias[known] = 0
        # Of two classes scikit-learn has the second's alone.
        own = known[-len(model.coef_) :]
        weight[own], bias[own] = model.coef_, model.intercept_
        return cls(counts, weight, bias)

    def logits(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        """Return the log-probability of each class for each text, float64 (n, classes)."""
        scores = features(self.counts, texts) @ self.weight.T + self.bias
        return np.asarray(log_softmax(scores, axis=1))

    def save(self, folder: Path) -> None:
        """Write terms and weights; equal ones give equal bytes."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        kinds = [
            {
                "kind": [kind] * len(each.idf_),
                "term": each.get_feature_names_out(),
                "idf": each.idf_,
            }
            for kind, each in zip(GRAMS, self.counts, strict=True)
        ]
        files.write_parquet(folder / TERMS, pa.concat_tables(map(pa.table, kinds)))
        save_file({"weight": self.weight, "bias": self.bias}, folder / HEAD)

    @classmethod
    def load(cls, folder: Path) -> TfidfModel:
        """Load what `save` wrote."""
        from safetensors.numpy import load_file

        terms, counts = files.read_parquet(folder / TERMS).to_pandas(), []
        for kind in GRAMS:
            own = terms[terms["kind"] == kind]
            counts.append(_vectorizer(kind, vocabulary=own["term"].tolist()))
            counts[-1].idf_ = own["idf"].to_numpy()
        head = load_file(folder / HEAD)
        return cls(counts, head["weight"], head["bias"])


def _vectorizer(kind: str, **more: Any) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(**GRAMS[kind], sublinear_tf=True, **more)
