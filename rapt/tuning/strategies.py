"""How the gradient of a step comes about: sections of params.yaml.

This module does not import torch, as every command reads params.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, SerializeAsAny, model_validator

from rapt import paths
from rapt.param_types import Section, or_of, problem, type_of
from rapt.utils.registry import Registry

if TYPE_CHECKING:
    import torch

    from rapt.tuning.gradients import GradientStep
    from rapt.tuning.trainer import Trainer

Clipping = Literal["flat", "automatic", "stable", "quantile"]


class Strategy(ABC):
    """How the gradients of one run come about, step by step."""

    @property
    def at_a_time(self) -> int | None:
        """Texts whose gradient is computed at once, at most; None: as memory has room."""
        return None

    def batches(
        self, lengths: Sequence[int], size: int, generator: torch.Generator
    ) -> Iterator[list[int]]:
        """Yield the rows of each batch of an epoch: random, but of texts alike in length.

        Args:
            lengths: of the split's texts, in tokens.
            size: texts in a batch.
            generator: of the order.
        """
        from rapt.tuning.batches import shuffled

        return shuffled(lengths, size, generator)

    def parts(self, rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
        """Cut a batch into the rows whose gradient is computed at once, `size` as memory allows."""
        return (rows[start : start + size] for start in range(0, len(rows), size))

    @abstractmethod
    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch, on all weights that learn."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint keeps of it between two steps."""
        return {}

    def resume(self, tensors: Mapping[str, torch.Tensor]) -> None:  # noqa: B027, most keep nothing
        """Take back what `state` returned, from a checkpoint's tensors."""

    def statement(self) -> dict[str, float]:
        """Return what the training promises about its texts (`CellResult.training`)."""
        return {}


class Gradient(Section, Strategy):
    """How the gradient of a step comes about; `type` is its name, its fields its parameters."""

    type: str

    def prepared(
        self, trainer: Trainer, texts: int, authors: Sequence[int] | None = None
    ) -> Strategy:
        """Return the strategy of one run, which tunes on so many texts.

        `authors` has the number of each text's author; None: authors are not known.
        """
        return self


class Plain(Gradient):
    """The gradient of the losses' sum."""

    type: Literal["plain"] = "plain"

    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch."""
        from rapt.tuning.gradients import PlainStep

        return PlainStep(weights)


class Capped(Gradient):
    """That of the losses' sum, with the reconstruction's part limited: `Reconstruction.cap`."""

    type: Literal["capped"] = "capped"
    cap: PositiveFloat

    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch."""
        from rapt.tuning.gradients import CappedStep

        return CappedStep(weights, self.cap)


class Policy(Section):
    """Just Fine-tune Twice (Shi et al., 2022): only words that a public policy finds are private.

    The model tunes first without noise, on texts with a placeholder for each word that is found,
    and then privately on the whole texts. It is for tasks of classes, and for clean text.
    """

    detectors: list[str] = Field(
        ["forms", "names"],
        description="rules that find words: forms, of numbers and addresses; names; or one of "
        "another package",
    )
    entities: list[str] = Field([], description="more types of named entities, as DATE")
    parts_of_speech: list[str] = Field([], description="Universal POS tags, as PROPN")
    tagger: str = Field(
        paths.TAGGER,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="spaCy model that finds entities and parts of speech, an importable package",
    )
    epochs: PositiveInt = Field(3, description="of the first tuning, without noise")
    learning_rate: PositiveFloat = Field(1e-3, description="of the first tuning, the highest")

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if not (self.detectors or self.entities or self.parts_of_speech):
            raise problem(
                "got a policy without a rule, expected detectors, entities or parts_of_speech. It "
                "would call no word private."
            )
        return self


class Private(Gradient):
    """DP-SGD (Abadi et al., 2016): each text's gradient is clipped, and their sum gets noise.

    It bounds what a model can tell about any one text to whoever sees the model. Each step draws
    every text with the same probability: a batch has `train.batch_size` on average. With the unit
    `author` the same holds of authors, each with all of their texts.
    """

    type: Literal["private"] = "private"
    epsilon: PositiveFloat = Field(description="that the whole training may spend")
    delta: float = Field(1e-5, gt=0, lt=1, description="below 1 / the number of units")
    unit: Literal["text", "author"] = Field(
        "text",
        description="whose part in the model is bounded: one text's, or that of all texts of an "
        "author, for tasks with authors. Releases name no author: on clean text alone",
    )
    clip: PositiveFloat = Field(1.0, description="norm that a unit's gradient may have")
    clipping: Clipping = Field(
        "flat",
        description="flat: a longer gradient is shortened. automatic: each is scaled to about the "
        "norm (AUTO-S, Bu et al., 2023). stable: the same, but very short ones stay shorter "
        "(DP-PSAC, Xia et al., 2023). quantile: the norm begins at clip and follows the median "
        "(Andrew et al., 2021), which costs a little",
    )
    policy: Policy | None = Field(
        None, description="which words are private: the bound is of these alone; null: all words"
    )

    def prepared(
        self, trainer: Trainer, texts: int, authors: Sequence[int] | None = None
    ) -> Strategy:
        """Find the noise of a run, and have its model keep the gradient of each unit."""
        from rapt.tuning.private import PrivateGradients

        return PrivateGradients(self, trainer, texts, authors)

    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Refuse: the noise is that of a run, see `prepared`."""
        raise NotImplementedError  # a trainer asks what `prepared` returned


# Another package adds one by an entry point of this group.
GRADIENTS: Registry[type[Gradient]] = Registry(
    "rapt.gradients", Gradient, type_of, [Plain, Private]
)
AnyGradient = Annotated[Plain | Private, or_of(GRADIENTS), SerializeAsAny()]
