"""Kind classify: predict the class of a text, or of a pair."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PositiveInt, model_validator

from rapt.param_types import problem
from rapt.tasks.base import Expectations
from rapt.tasks.labelled import Labelled
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rapt.data.prepare import Remaining
    from rapt.data.sources import Split

BIO = re.compile(r"O|[BI]-\S+")  # Ramshaw and Marcus (1995)


class Classify(Labelled):
    """Predict the class of a text, or of a pair of texts."""

    kind: Literal["classify"] = "classify"
    text_pair: str | None = Field(
        None, description="column of a pair's second text; null: single texts"
    )
    entities: str | None = Field(
        None, description="where a text is a list of words: the column of their BIO tags"
    )
    cut_words: PositiveInt | None = Field(
        None, description="of a text, counted between spaces: the rest is cut off; null: any"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Classify:
        if self.entities and self.text_pair:
            raise problem("got entities and text_pair, expected one of them.")
        if self.entities and self.cut_words:
            raise problem("got cut_words with entities, expected it with whole texts to classify.")
        return self

    def read(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        """Return the texts of each row, the tags of their words, and the label."""
        from rapt.data import read

        if self.entities:
            return {**self._tagged(split, self.entities, key), **self._labels(split, key)}
        columns = super().read(split, key)
        if self.text_pair:
            where = f"{key}.text_pair"
            pairs = read.strings(split.columns, self.text_pair, where, split.where)
            columns["text_pair"] = [text or "" for text in pairs]
        return columns

    def _tagged(self, split: Split, entities: str, key: str) -> dict[str, Sequence[Any]]:
        """Return texts that come as words with BIO tags, joined by spaces, and their tags."""
        from rapt.data import read

        words = read.word_lists(split.columns, self.text, f"{key}.text", split.where)
        tags = read.word_lists(split.columns, entities, f"{key}.entities", split.where)
        pairs = list(zip(words, tags, strict=True))
        if bad := sum(not _are_tags(*pair) for pair in pairs):
            raise RaptError(
                f"{split.where}: {key}.entities: got something else in {bad} of {len(pairs)} rows, "
                "expected O, B-TYPE or I-TYPE for each word."
            )
        texts = [None if text is None else " ".join(text) for text in words]
        return {"text": texts, "entities": tags}

    def cut(self, rows: Remaining) -> dict[str, int]:
        """Cut texts after so many words; count the texts that were longer."""
        if not self.cut_words:
            return {}
        first = re.compile(rf"\s*(?:\S+\s+){{{self.cut_words - 1}}}\S+(?=\s+\S)")
        cut = 0
        for column in ("text", "text_pair"):
            texts = rows.frame[column].to_list()
            begins = [first.match(text or "") for text in texts]
            cut += sum(map(bool, begins))
            short = [begin[0] if begin else text for begin, text in zip(begins, texts, strict=True)]
            rows.frame = rows.frame.assign(**{column: short})
        return {"cut": cut}

    def columns(self, frame: pd.DataFrame) -> dict[str, pa.Array]:
        """Return the classes, and the tags of the words."""
        import pyarrow as pa

        if not self.entities:
            return super().columns(frame)
        tags = pa.array(list(frame["entities"]), pa.list_(pa.string()))
        return super().columns(frame) | {"entities": tags}

    def expected(self, expect: Expectations, split: str) -> list[Any]:
        """Return that second texts are texts, labels classes, and that each word has its tag."""
        rules = expect.texts("text_pair", "second texts") if self.text_pair else []
        rules += super().expected(expect, split)
        if self.entities:
            name, allowed = "every word has its tag", "as many tags as words"
            rules += expect.equal("words_of_text", "tags_of_text", name, allowed)
        return rules

    def check_enough(self, name: str, rows: pa.Table, least: int) -> None:
        """Check that each class has enough training rows: cross-validation needs two."""
        if not self.names:
            return
        counts = Counter(rows["label"].to_pylist())
        of_class = {class_: counts[number] for number, class_ in enumerate(self.names)}
        if few := sorted((count, class_) for class_, count in of_class.items() if count < least):
            raise RaptError(
                f"tasks.{name}.label: got {len(few)} classes of fewer than {least} training "
                f"rows ({few[0][1]!r} has {few[0][0]} of {counts.total()}), expected {least} "
                "of each. Leave such classes out (rapt init --min-class N, or exclude), or take "
                "more rows (rapt init --full, or rows.train)."
            )


def _are_tags(words: list[str] | None, tags: list[str] | None) -> bool:
    if words is None or tags is None:
        return words is tags
    return len(words) == len(tags) and all(BIO.fullmatch(tag) for tag in tags)
