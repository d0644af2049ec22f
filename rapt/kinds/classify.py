"""Kind classify: the class of a text, or of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from rapt.kinds.base import Intervals, Kind
from rapt.kinds.messages import Answers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from torch import Tensor

    from rapt.tuning.backbones import AnyModel
    from rapt.tuning.config import Precision
    from rapt.tuning.inputs import Reader, Split
    from rapt.tuning.model import TaskModel


class Probabilities(Answers):
    """The probability of each class."""

    labels: list[str]
    probabilities: list[list[Annotated[float, Field(ge=0, le=1)]]]

    @classmethod
    def of(cls, labels: Sequence[str], rows: Sequence[Any]) -> Self:
        """Build the message from the answer to each text."""
        return cls(labels=list(labels), probabilities=list(rows))

    def rows(self, labels: Sequence[str]) -> list[list[float]] | None:
        """Return the answer to each text; None: they are about other labels than these."""
        fits = self.labels == list(labels) and {*map(len, self.probabilities)} <= {len(labels)}
        return self.probabilities if fits else None


class Classify(Kind):
    """The class of a text, or of a pair, by a head on the mean activation of its tokens."""

    name = "classify"
    metric = "accuracy"
    has_classes = True
    answers = Probabilities

    def model(self, backbone: AnyModel, reader: Reader, precision: Precision) -> TaskModel:
        """Return an adapted backbone with a fresh linear head."""
        from rapt.tuning.model import Classifier

        return Classifier(backbone, len(self.labels), precision)

    def measured(self, outputs: Tensor, split: Split) -> dict[str, float]:
        """Return the accuracy: the share of texts whose highest score is the right one."""
        return {"accuracy": _share(outputs, split)}

    def kept(self, outputs: Tensor) -> NDArray[np.float32]:
        """Return the scores of the classes."""
        return outputs[:, : len(self.labels)].numpy()

    def rows(self, outputs: Tensor) -> list[list[float]]:
        """Return the probability of each class."""
        return self.probabilities(outputs).tolist()

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Return the probability of each class, float64 (n, classes)."""
        return outputs[:, : len(self.labels)].double().softmax(1)

    def write(
        self, path: Path, rows: Mapping[str, pa.Table], kept: Sequence[Mapping[str, Any]]
    ) -> tuple[Intervals, dict[str, float]]:
        """Write the scores; the baseline is the share of the most frequent class."""
        from rapt.analysis.intervals import of_accuracy
        from rapt.results import predictions
        from rapt.results.predictions import Predictions

        predicted = {
            split: Predictions.of(rows[split], [one[split] for one in kept]) for split in kept[0]
        }
        predictions.write(path, predicted)
        test = predicted["test"]
        return {"accuracy": of_accuracy(test.right)}, {"majority": test.majority}

    def as_json(self, answer: Sequence[float]) -> dict[str, Any]:
        """Return the likeliest label, its probability and that of each."""
        chances = dict(zip(self.labels, answer, strict=True))
        label = max(chances, key=chances.__getitem__)
        return {"label": label, "probability": chances[label], "probabilities": chances}

    def as_line(self, answer: Sequence[float]) -> str:
        """Return the likeliest label and its probability."""
        likeliest = self.as_json(answer)
        return f"{likeliest['label']}\t{likeliest['probability']:.3f}"


def _share(scores: Tensor, split: Split) -> float:
    return (scores.argmax(1).numpy() == split.labels).mean().item()
