"""Kind choose: the letter of a choice, which a language model writes after a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rapt.kinds.base import Columns, Intervals
from rapt.kinds.classify import Classify

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from rapt.tuning.backbones import AnyModel
    from rapt.tuning.config import Decoding, Precision
    from rapt.tuning.inputs import Reader, Split
    from rapt.tuning.model import TaskModel


class Choose(Classify):
    """The letter of a choice, among all tokens that may follow the question and its choices."""

    name = "choose"
    is_language_model = True
    is_causal = True
    needs_of_release = "aligned"  # a segment for each choice

    def segments(self, *, is_pair: bool) -> int:
        """Return the number of a question and its choices."""
        return 1 + len(self.labels)

    def part(self, number: int) -> str:
        """Name a segment, all of which must have words."""
        return f"choice {number}" if number else "question"

    def readable(self, sizes: Sequence[int], most: int, *, chat: bool) -> list[slice]:
        """Return the words of the question and of each choice that a model can read."""
        from rapt.tuning.inference_spec import fitting

        # A letter before each choice, and but in a chat a word after all.
        frame = len(sizes) - chat
        return fitting([[1] * size for size in sizes], max(0, most - frame))

    def decodes(self, decoding: Decoding) -> bool:
        """Return whether a question is a user's turn."""
        return decoding.chat

    def tokenized(self, columns: Columns, reader: Reader, vectors: Tensor | None = None) -> Split:
        """Tokenize questions with their choices as prompts."""
        from rapt.tuning.inputs import tokenized

        most, letters = reader.max_tokens, self.labels
        return tokenized(columns, reader.tokenizer, most, vectors, letters, chat=reader.chat)

    def model(self, backbone: AnyModel, reader: Reader, precision: Precision) -> TaskModel:
        """Return an adapted language model that looks at the letters.

        Raises:
            RaptError: a letter is more than one token, or two are the same.
        """
        from rapt.tuning.inputs import letter_tokens
        from rapt.tuning.model import Chooser

        letters = letter_tokens(reader.tokenizer, self.labels, chat=reader.chat)
        return Chooser(backbone, letters, precision)

    def measured(self, outputs: Tensor, split: Split) -> dict[str, float]:
        """Return the accuracy among letters, and the exact match among all tokens."""
        of_letters = super().measured(outputs[:, : len(self.labels)], split)
        return of_letters | {"exact_match": super().measured(outputs, split)["accuracy"]}

    def write(
        self, path: Path, rows: Mapping[str, pa.Table], kept: Sequence[Mapping[str, Any]]
    ) -> tuple[Intervals, dict[str, float]]:
        """Write the letters' scores; a further baseline is a choice by chance."""
        intervals, baselines = super().write(path, rows, kept)
        return intervals, baselines | {"chance": 1 / len(self.labels)}
