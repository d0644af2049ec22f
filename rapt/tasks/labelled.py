"""Tasks of texts with a label: their classes, authors and private attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from rapt.data.config import Attribute, Label, MostFrequent
from rapt.param_types import Name, problem, unique
from rapt.tasks.base import Expectations, Scored, Task

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rapt.data.prepare import Remaining
    from rapt.data.sources import Split


class Labelled(Task):
    """Texts with a label. Without one no adapter is tuned: the task is only attacked."""

    label: Label | None = Field(None, description="the class; null: no adapter is tuned")
    attributes: dict[Name, Attribute] | None = Field(
        None, description="private attributes an attacker infers"
    )
    authors: Annotated[list[str], Field(min_length=1), AfterValidator(unique)] | None = Field(
        None, description="columns that tell authors apart: none is then in both splits"
    )

    @model_validator(mode="after")
    def _on_both_sides(self) -> Labelled:
        for name, attribute in self.inferred.items():
            of_all = isinstance(attribute, MostFrequent) and attribute.column in self.identifying
            if of_all or self.authors == [attribute.column]:
                raise problem(
                    f"got authors {attribute.column!r}, expected another column or null: "
                    f"attributes.{name}, inferred from it, needs each author on both sides."
                )
        return self

    @property
    def is_tuned(self) -> bool:
        """Whether a model can be tuned on it."""
        return self.label is not None

    @property
    def names(self) -> list[str] | None:
        """The names of the classes, if there are classes."""
        return self.label.names if self.label else None

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns of a release that hold what is to be predicted."""
        return ("label",) if self.label else ()

    @property
    def inferred(self) -> Mapping[str, Attribute]:
        """Private attributes that an attacker infers."""
        return self.attributes or {}

    @property
    def identifying(self) -> Sequence[str]:
        """Columns that tell authors apart."""
        return self.authors or ()

    def read(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        """Return the text and the label of each row."""
        return {**super().read(split, key), **self._labels(split, key)}

    def _labels(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        from rapt.data import read

        if not self.label:
            return {}
        where = f"{key}.label.column"
        return {"label": read.strings(split.columns, self.label.column, where, split.where)}

    def parse(self, rows: Remaining, key: str) -> None:
        """Turn labels into class numbers."""
        from rapt.data import labels

        if self.label:
            labels.parse(rows, self.label, f"{key}.label")

    def columns(self, frame: pd.DataFrame) -> dict[str, pa.Array]:
        """Return the classes."""
        import pyarrow as pa

        return {"label": pa.array(frame["label"], pa.int64())} if self.label else {}

    def expected(self, expect: Expectations, split: str) -> list[Any]:
        """Return that labels are classes."""
        if not self.names:
            return []
        last = len(self.names) - 1
        return expect.in_set("label", "labels", range(last + 1), f"0 to {last}")

    def alone(self, name: str, embedding: str, path: Path) -> Scored:
        """Fit every local model on the training rows, and score the test rows."""
        from rapt import paths
        from rapt.analysis.intervals import of_accuracy
        from rapt.baselines import local
        from rapt.results import predictions
        from rapt.results.predictions import Predictions
        from rapt.text.table import EmbeddingTable
        from rapt.utils import files

        assert self.names  # as params.yaml was checked
        train, test = (
            files.read_parquet(paths.tagged(name) / f"{split}.parquet")
            for split in ("train", "test")
        )
        texts, table = local.texts(test), EmbeddingTable(paths.table(embedding))
        given = (name, local.texts(train), train["label"].to_pylist(), len(self.names), table)
        models = local.fit(*given)
        predicted = {model.name: Predictions.of(test, [model.logits(texts)]) for model in models}
        best = predicted[models[0].name]
        held_out = Predictions.of(train, [models[0].held_out])
        predictions.write(path, {"train": held_out, "test": best})
        named = {"accuracy": best} | {f"accuracy_{name}": one for name, one in predicted.items()}
        few = defaultdict[int, list[Any]](list)
        for size, model in local.by_labels(*given):
            few[size].append(model.logits(texts))
        named |= {f"accuracy_with_{n}": Predictions.of(test, models) for n, models in few.items()}
        metrics = {name: float(one.right.mean()) for name, one in named.items()}
        metrics |= {f"log_loss_{model.name}": model.log_loss for model in models}
        return Scored(
            [metrics],
            {name: of_accuracy(one.right) for name, one in named.items()},
            {"train": len(train), "test": len(test)},
            {"majority": best.majority},
        )
