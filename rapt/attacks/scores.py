"""How much of the victims' texts an attack gets right: metrics of a seed, and their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.intervals import interval, mean_interval
from rapt.attacks.base import Texts, Values
from rapt.results.predictions import Successes

Counts = NDArray[np.int64]
FEWER = (10, 100)  # candidates among which an original is sought as well
UNBOUNDED = ("rank", "squared_error")  # metrics that are no shares


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one seed: metrics that are ratios of sums over n texts.

    Attributes:
        ratios: for each metric the numerator of each text, int64 (n,), and its denominator, int64
            (n,). The numerators of a mean, and of a share of ties, are float64.
        complements: for each metric of empirical privacy the metric that it is 1 minus of.
    """

    ratios: dict[str, tuple[NDArray[Any], Counts]]
    complements: dict[str, str]

    def metrics(self) -> dict[str, float]:
        """Compute the metrics of a cell (docs/data.md)."""
        found = {
            name: float(right.sum() / max(1, counted.sum()))
            for name, (right, counted) in self.ratios.items()
        }
        return found | {name: 1 - found[of] for name, of in self.complements.items()}


def intervals(seeds: Sequence[Scores]) -> dict[str, tuple[float, float]]:
    """Compute a 95 % confidence interval for each metric, over texts and seeds."""
    metrics = [seed.metrics() for seed in seeds]
    found: dict[str, tuple[float, float]] = {}
    for name in seeds[0].ratios:
        right, counted = np.sum([seed.ratios[name] for seed in seeds], axis=0)
        values = np.array([metric[name] for metric in metrics])
        of = mean_interval if name in UNBOUNDED else interval
        found[name] = of(right, counted, values)
    for name, of_name in seeds[0].complements.items():
        low, high = found[of_name]
        found[name] = (1 - high, 1 - low)
    return found


def successes(seeds: Sequence[Scores], examples: Sequence[str]) -> dict[str, Successes]:
    """Collect each text's results of the metrics whose complement is an empirical privacy."""
    names = seeds[0].complements.values()
    return {n: Successes(examples, np.array([seed.ratios[n] for seed in seeds])) for n in names}


def attribute_scores(truth: Values, guesses: Values, authors: Counts | None) -> Scores:
    """Compare each text's guessed attributes with the true ones.

    The texts of an author belong together; None: authors are not known.
    """
    ratios: dict[str, tuple[NDArray[Any], Counts]] = {}
    for name, values in truth.items():
        right = np.array(guesses[name]) == np.array(values)
        of = np.arange(len(right)) if authors is None else authors
        ratios[f"accuracy_{name}"] = (np.bincount(of, right).astype(np.int64), np.bincount(of))
    return Scores(ratios, {f"empirical_privacy_{name}": f"accuracy_{name}" for name in truth})


def majority(values: Sequence[str]) -> float:
    """Compute the accuracy of always answering the most frequent value."""
    return max(Counter(values).values()) / len(values)


def linkage_scores(scores: NDArray[np.float64], seed: int) -> Scores:
    """Rank the originals of m releases among n candidates, by the scores of all pairs (m, n).

    The original of a release is the candidate of the same place.

    Ties share their places. Metrics are means over texts: `linked`, how often the original ranks
    first, and of fewer candidates, drawn for each text, `linked_10` and `linked_100`; `rank`, from
    1; `auc`, how often it ranks above another candidate.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    (m, n), own = scores.shape, scores.diagonal()[:, None]
    ties = (scores == own).sum(axis=1)  # with itself
    above = (scores > own).sum(axis=1)
    rank = above + (ties + 1) / 2
    found = {"linked": np.where(above == 0, 1 / ties, 0.0), "rank": rank}
    found["auc"] = (n - rank) / max(1, n - 1)
    rng = np.random.default_rng(seed)
    for size in (size for size in FEWER if size < n):
        others = np.array([rng.permutation(n - 1)[: size - 1] for _ in range(m)])
        others += others >= np.arange(m)[:, None]
        some = np.take_along_axis(scores, others, axis=1)
        is_first = (some > own).sum(axis=1) == 0
        found[f"linked_{size}"] = np.where(is_first, 1 / (1 + (some == own).sum(axis=1)), 0.0)
    ones = np.ones(m, np.int64)
    return Scores(
        {name: (np.asarray(values, np.float64), ones) for name, values in found.items()},
        {"empirical_privacy": "linked"},
    )


def entity_scores(truth: Texts, guesses: Texts) -> Scores:
    """Compare BIO tags, one for each word: precision, recall and F1, micro averages as of CoNLL.

    An entity is its type with its first and its last word. F1 is 2·TP / (2·TP + FP + FN).
    """
    pairs = [[set(_entities(tags)) for tags in text] for text in zip(truth, guesses, strict=True)]
    counts = [(len(own), len(guess), len(own & guess)) for own, guess in pairs]
    named, guessed, right = np.array(counts, np.int64).reshape(-1, 3).T
    ratios = {
        "precision": (right, guessed),
        "recall": (right, named),
        "f1": (2 * right, guessed + named),
    }
    return Scores(ratios, {"empirical_privacy": "f1"})


def entities_named(texts: Texts) -> int:
    """Count the entities that BIO tags name."""
    return sum(len(set(_entities(tags))) for tags in texts)


def blind(truth: Texts) -> float:
    """F1 of a baseline that tags every word as an entity of the most frequent type."""
    entities = [entity for text in truth for entity in _entities(text)]
    single = Counter(kind for kind, first, last in entities if first == last)
    guessed = sum(map(len, truth))
    return 2 * max(single.values(), default=0) / max(1, guessed + len(entities))


def _entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return type, first and last word of each entity that BIO tags name, as seqeval reads them."""
    from seqeval.metrics import sequence_labeling  # which loads scikit-learn

    entities: list[tuple[str, int, int]] = sequence_labeling.get_entities(list(tags))
    return entities
