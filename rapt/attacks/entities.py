"""How many of the entities that texts name an attacker finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from seqeval.metrics.sequence_labeling import get_entities

from rapt.analysis.intervals import interval
from rapt.attacks.base import Texts

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """The entities of n texts, for each text; one is its type and its first and last word.

    Attributes:
        named: those that it names, int64 (n,).
        guessed: those that the attacker names.
        right: those of both.
    """

    named: Counts
    guessed: Counts
    right: Counts

    @classmethod
    def of(cls, truth: Texts, guesses: Texts) -> Found:
        """Compare BIO tags: of each text one for each word, and as many that were guessed."""
        pairs = [
            [set(get_entities(list(tags))) for tags in text]
            for text in zip(truth, guesses, strict=True)
        ]
        counts = [(len(own), len(guess), len(own & guess)) for own, guess in pairs]
        return cls(*np.array(counts, np.int64).reshape(-1, 3).T)

    def shares(self) -> dict[str, tuple[Counts, Counts]]:
        """Of which counts each metric is the share; F1 is 2·TP / (2·TP + FP + FN)."""
        return {
            "precision": (self.right, self.guessed),
            "recall": (self.right, self.named),
            "f1": (2 * self.right, self.guessed + self.named),
        }

    def metrics(self) -> dict[str, float]:
        """The metrics of a `recognize` cell (docs/data.md): micro averages, as of CoNLL."""
        found = {
            name: float(right.sum() / max(1, counted.sum()))
            for name, (right, counted) in self.shares().items()
        }
        return found | {"empirical_privacy": 1 - found["f1"]}


def intervals(seeds: Sequence[Found]) -> dict[str, tuple[float, float]]:
    """A 95 % confidence interval for each metric, from what was found in each seed's copy."""

    def of(metric: str) -> tuple[float, float]:
        right, counted = np.sum([seed.shares()[metric] for seed in seeds], axis=0)
        return interval(right, counted, np.array([seed.metrics()[metric] for seed in seeds]))

    found = {metric: of(metric) for metric in seeds[0].shares()}
    low, high = found["f1"]
    return found | {"empirical_privacy": (1 - high, 1 - low)}


def blind(truth: Texts) -> float:
    """The F1 of who takes every word for an entity of its own, all of the type that does best."""
    entities = [entity for text in truth for entity in get_entities(list(text))]
    single = Counter(kind for kind, first, last in entities if first == last)
    guessed = sum(map(len, truth))
    return 2 * max(single.values(), default=0) / max(1, guessed + len(entities))
