"""Labels under local differential privacy: randomized response among the classes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from rapt.privacy.mechanisms.claim import Bound
from rapt.privacy.streams import stream

if TYPE_CHECKING:
    import pyarrow as pa

NOISY_SPLIT = "train"  # the labels of the other split serve the score alone


@dataclass(frozen=True)
class RandomizedLabels:
    """Each training label stays with probability e^ε / (e^ε + k − 1), else it is another one.

    The others are equally likely (Warner, 1965; k classes). A label is drawn once for each copy.

    Attributes:
        epsilon: the most that a label loses in one copy.
        classes: k.
        seed: the experiment's.
    """

    epsilon: float
    classes: int
    seed: int

    @property
    def bound(self) -> Bound:
        """The bound of one copy's label, whatever the text."""
        return Bound(None, lambda distance: self.epsilon)

    @property
    def kept(self) -> float:
        """The probability that a label stays."""
        return 1 / (1 + (self.classes - 1) * exp(-min(self.epsilon, 700)))

    def drawn(self, labels: list[int], ids: list[str], *names: str | int) -> list[int]:
        """Draw the label of each example, by the names of its copy and its id."""
        numbers = [stream(self.seed, *names, example, "label").random() for example in ids]
        found = []
        for label, number in zip(labels, numbers, strict=True):
            rest = (number - self.kept) / max(1 - self.kept, np.finfo(float).tiny)
            step = 0 if number < self.kept else 1 + int(rest * (self.classes - 1))
            found.append((label + step) % self.classes)
        return found

    def of(self, tagged: pa.Table, split: str, *names: str | int) -> pa.Table:
        """Return a tagged split with the labels that a copy releases."""
        import pyarrow as pa  # which not all who read params need

        if split != NOISY_SPLIT:
            return tagged
        labels, ids = tagged["label"].to_pylist(), tagged["example_id"].to_pylist()
        at = tagged.column_names.index("label")
        drawn = pa.array(self.drawn(labels, ids, *names), tagged.schema.field("label").type)
        return tagged.set_column(at, "label", drawn)
