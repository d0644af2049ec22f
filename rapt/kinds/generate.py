"""Kind generate: a text that a language model writes after a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rapt.kinds.base import Columns, Intervals, Kind, Need
from rapt.kinds.messages import Answers

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from rapt.tuning.backbones import AnyModel
    from rapt.tuning.config import Decoding, Precision
    from rapt.tuning.inputs import Reader, Split
    from rapt.tuning.model import TaskModel
    from rapt.tuning.writing import Written


class Texts(Answers):
    """The text that was written for each source."""

    texts: list[str]

    @classmethod
    def of(cls, labels: Sequence[str], rows: Sequence[Any]) -> Self:
        """Build the message from the answer to each text."""
        return cls(texts=list(rows))

    def rows(self, labels: Sequence[str]) -> list[str]:
        """Return the answer to each text."""
        return self.texts


class Generate(Kind):
    """A text that a language model writes; the user scores it, who has the references."""

    name = "generate"
    metric = "bleu"
    is_language_model = True
    keeps_spacing = True
    needs_of_release = "has_channel"  # words, which are put back in what is written
    target = None
    path = "/write"
    at_a_time = 8  # writing takes seconds
    answers = Texts

    def segments(self, *, is_pair: bool) -> int:
        """Return the number of a source alone."""
        return 1

    def decodes(self, decoding: Decoding) -> bool:
        """Return that it does."""
        return True

    def tokenized(self, columns: Columns, reader: Reader, vectors: Tensor | None = None) -> Split:
        """Tokenize sources, and the texts that were written of them, where there are any."""
        from rapt.tuning.writing import tokenized

        most = reader.max_tokens
        return tokenized(columns, reader.tokenizer, most, apart=reader.apart, chat=reader.chat)

    def model(self, backbone: AnyModel, reader: Reader, precision: Precision) -> TaskModel:
        """Return an adapted language model."""
        from rapt.tuning.model import Writer

        return Writer(backbone, precision)

    def needs(
        self, model: AnyModel, splits: Mapping[str, Split], decoding: Decoding
    ) -> Iterator[Need]:
        """Yield the positions that targets, prompts and what will be written take."""
        from rapt.tuning.backbones import most_tokens

        most, of_written = most_tokens(model), most_tokens(model, written=True)
        if most is None or of_written is None:
            return
        apart = splits["train"].targets  # with positions of their own
        target = max(map(len, apart) if apart else map(sum, splits["train"].text))
        advice = "Leave it out, or take another backbone: nothing cuts a target."
        yield Need("targets", target, "tokens in one", of_written, advice)
        longest = max(max(split.lengths) for split in splits.values())
        what = "tokens with plain and special ones"
        if apart:
            yield Need("train.max_tokens", longest, what, most, "Lower it.")
        else:
            advice = "Lower it, or leave long targets out."
            yield Need("train.max_tokens", longest, f"{what} and those of a target", most, advice)
        before = 0 if apart else max(splits["test"].lengths)
        room = max(0, of_written - before)
        advice = "Lower it." if apart else "Lower it or train.max_tokens."
        what = f"tokens after {before} of a prompt"
        yield Need("decoding.max_new_tokens", decoding.max_new_tokens, what, room, advice)

    def try_out(self, model: TaskModel, reader: Reader, decoding: Decoding) -> None:
        """Write two tokens, as some models cannot search with several beams.

        Raises:
            RaptError: it fails.
        """
        from rapt.tuning.writing import try_out

        try_out(model, reader.tokenizer, decoding, apart=reader.apart)

    def outputs(
        self, model: TaskModel, split: Split, reader: Reader, decoding: Decoding, batch_size: int
    ) -> Written:
        """Return the text that is written for each source."""
        from rapt.tuning.writing import write

        return write(model, split, reader.tokenizer, decoding, batch_size)

    def measured(self, outputs: Written, split: Split) -> dict[str, float]:
        """Return the share of texts that the model ended itself."""
        return {"finished": outputs.finished}

    def kept(self, outputs: Written) -> list[str]:
        """Return the texts."""
        return outputs.texts

    def rows(self, outputs: Written) -> list[str]:
        """Return the texts."""
        return outputs.texts

    def write(
        self, path: Path, rows: Mapping[str, pa.Table], kept: Sequence[Mapping[str, Any]]
    ) -> tuple[Intervals, dict[str, float]]:
        """Write the texts, which the stage `score` scores."""
        from rapt.results import predictions

        predictions.write_texts(path, rows["test"], [one["test"] for one in kept])
        return {}, {}

    def as_json(self, answer: str) -> dict[str, Any]:
        """Return the text."""
        return {"text": answer}
