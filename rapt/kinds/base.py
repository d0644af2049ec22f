"""The interface of a kind of task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rapt.kinds.messages import Answers

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from rapt.tuning.backbones import AnyModel
    from rapt.tuning.config import Decoding, Precision, TrainConfig, Trained
    from rapt.tuning.inputs import Reader, Split
    from rapt.tuning.model import TaskModel

Columns = Mapping[str, list[Any]]
Intervals = dict[str, tuple[float, float]]


class Need(NamedTuple):
    """Positions of the backbone that a run takes, by the key of params.yaml that decides it."""

    key: str
    got: int
    what: str
    room: int
    advice: str


@dataclass(frozen=True)
class Kind(ABC):
    """How a model reads the texts of a task, learns, answers and is scored.

    It knows what the statement of a release says, and nothing else of the task.

    Attributes:
        labels: names of the classes, if there are classes.
        name: of the kind.
        metric: of a tuned cell, which the report shows first.
        has_classes: whether an answer is the probability of each label.
        is_language_model: whether a language model's own head answers, and not one beside it.
        is_causal: whether only a language model without an encoder can answer.
        keeps_spacing: whether a text holds what is after each word.
        needs_of_release: the attribute of `rapt.privacy.released.Released` that its releases have;
            None: it takes any.
        target: column of a release that holds what is to be predicted; None: it is a text.
        path: of the server, where the answer is asked for.
        at_a_time: texts that are asked about in one request.
        answers: the message that answers them.
    """

    labels: tuple[str, ...] = ()

    name: ClassVar[str]
    metric: ClassVar[str]
    has_classes: ClassVar[bool] = False
    is_language_model: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False
    keeps_spacing: ClassVar[bool] = False
    needs_of_release: ClassVar[str | None] = None
    target: ClassVar[str | None] = "label"
    path: ClassVar[str] = "/predict"
    at_a_time: ClassVar[int] = 32
    answers: ClassVar[type[Answers]]

    # What a text is

    def segments(self, *, is_pair: bool) -> int:
        """Return how many segments a text has, where training texts are pairs or are none."""
        return 1 + is_pair

    def part(self, number: int) -> str | None:
        """Name a segment that must have words; None: it may be empty."""
        return None

    def readable(self, sizes: Sequence[int], most: int, *, chat: bool) -> list[slice]:
        """Return the words of each segment that a model can read, at one token or more per word.

        Args:
            sizes: the number of words of each segment.
            most: tokens that it reads of a text.
            chat: whether a text is a user's turn.
        """
        if len(sizes) == 1:
            return [slice(most)]
        # A segment that is shorter than its half leaves the rest to the other.
        return [slice(most - min(other, most // 2)) for other in reversed(sizes)]

    def decodes(self, decoding: Decoding) -> bool:
        """Return whether an answer depends on how texts are written."""
        return False

    def tokenized(self, columns: Columns, reader: Reader, vectors: Tensor | None = None) -> Split:
        """Tokenize texts, given by the columns of a release; see `rapt.tuning.inputs.tokenized`."""
        from rapt.tuning.inputs import tokenized

        labels = columns[self.target or "label"]
        return tokenized({**columns, "label": labels}, reader.tokenizer, reader.max_tokens, vectors)

    # The model

    @abstractmethod
    def model(self, backbone: AnyModel, reader: Reader, precision: Precision) -> TaskModel:
        """Return an adapted backbone with what answers and its loss.

        Raises:
            RaptError: the backbone, or its tokenizer, does not suit.
        """

    def needs(
        self, model: AnyModel, splits: Mapping[str, Split], decoding: Decoding
    ) -> Iterator[Need]:
        """Yield the positions that the texts of a run take; nothing if there is no limit."""
        from rapt.tuning.backbones import most_tokens

        if (most := most_tokens(model)) is not None:
            longest = max(max(split.lengths) for split in splits.values())
            what = "tokens with plain and special ones"
            yield Need("train.max_tokens", longest, what, most, "Lower it.")

    def try_out(  # noqa: B027, most can do what they are asked
        self, model: TaskModel, reader: Reader, decoding: Decoding
    ) -> None:
        """Answer a short text before anything is tuned, if a model may be unable to.

        Raises:
            RaptError: it fails.
        """

    # Its answers

    def outputs(
        self, model: TaskModel, split: Split, reader: Reader, decoding: Decoding, batch_size: int
    ) -> Any:
        """Return what a model makes of each text of a split: scores, float32 (n, outputs)."""
        from rapt.tuning.scoring import logits

        return logits(model, split, reader.pad, batch_size)

    @abstractmethod
    def measured(self, outputs: Any, split: Split) -> dict[str, float]:
        """Return the metrics of one seed's outputs on the test split."""

    @abstractmethod
    def kept(self, outputs: Any) -> Any:
        """Return what is kept of the outputs, which `write` writes."""

    @abstractmethod
    def rows(self, outputs: Any) -> list[Any]:
        """Return the answer to each text, as a server sends it."""

    @abstractmethod
    def write(
        self, path: Path, rows: Mapping[str, pa.Table], kept: Sequence[Mapping[str, Any]]
    ) -> tuple[Intervals, dict[str, float]]:
        """Write what the model of each seed answered to each text.

        Args:
            path: the file of predictions.
            rows: ids and targets of the texts: `tuned` on, `train` (held out) and `test`.
            kept: of each seed's outputs, by split.

        Returns:
            intervals by metric, and baselines: the score of a trivial answer.
        """

    def write_all(
        self, path: Path, release: Path, train: TrainConfig, trained: Sequence[Trained]
    ) -> tuple[dict[str, int], Intervals, dict[str, float]]:
        """Write what the models of all seeds answered; return the splits' sizes, and as `write`.

        `train` says which training rows of the release were held out.
        """
        from rapt import paths
        from rapt.utils import files

        columns = ["example_id", *([self.target] if self.target else [])]
        every, test = (
            files.read_parquet(paths.seed(release, 0) / f"{split}.parquet", columns)
            for split in ("train", "test")
        )
        held = train.holds_out(len(every))
        rows = {"tuned": every.filter([not out for out in held]), "train": every.filter(held)}
        answers = self.write(path, rows | {"test": test}, [one.answers for one in trained])
        return {"train": len(every), "test": len(test)}, *answers

    def as_json(self, answer: Any) -> dict[str, Any]:
        """Return an answer as `rapt predict --json` prints it."""
        return {self.metric: answer}

    def as_line(self, answer: Any) -> str:
        """Return an answer as `rapt predict` prints it."""
        return str(answer)
