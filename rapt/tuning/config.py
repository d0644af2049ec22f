"""Configuration of a training run: sections of params.yaml on tuning, and the run of one seed.

Defaults are the paper's (RAPT, NLU) if their help says so. This module does not import torch, as
every command reads params.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field, PositiveFloat, PositiveInt, SerializeAsAny

from rapt.param_types import Kind, Model, Section, Sha256, or_of, type_of
from rapt.utils.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from peft import PeftModel
    from scipy.sparse import csr_array
    from transformers import PreTrainedModel

    from rapt.results.cells import SeedResult
    from rapt.tuning.checkpoints import Checkpoint
    from rapt.tuning.gradients import GradientStep
    from rapt.tuning.inputs import Split
    from rapt.tuning.trainer import Trainer

# Precision of a backbone's computations; heads, losses and trained weights stay in float32.
Precision = Literal["float32", "bf16"]
LearningRate = Annotated[
    PositiveFloat, Field(description="the highest, of AdamW; the paper's is 6e-5 for all tuners")
]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class Tuner(Section, ABC):
    """How a backbone is tuned; `type` is its name, its fields are its parameters.

    One that takes steps of AdamW has a field `learning_rate`.

    Attributes:
        learns: what learns, beside the heads: all of the backbone, or an adapter on frozen weights.
            `head`: the task's head alone. `nothing`: the model stays as it is.
        kinds: the kinds of task that it fits.
        reads_words: whether it reads words as they are, and has no backbone.
    """

    type: str
    learns: ClassVar[Literal["backbone", "adapter", "head", "nothing"]] = "adapter"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"classify", "choose", "generate"})
    reads_words: ClassVar[bool] = False

    @abstractmethod
    def adapt(self, backbone: PreTrainedModel) -> PreTrainedModel | PeftModel:
        """Return the backbone with a fresh adapter, if there is one; see `learns`.

        Raises:
            RaptError: the backbone does not support it.
        """

    def fit(self, trainer: Trainer, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Tune the trainer's model on a split, from the checkpoint on if there is one.

        Returns:
            each curve's mean over the texts, for every epoch; none if there are no epochs.
        """
        return trainer.take_steps(split, checkpoint)

    def train(self, runs: Sequence[Run]) -> list[Trained]:
        """Train seeds of a cell one after the other, in this process."""
        from rapt.tuning.train import train_seeds

        return train_seeds(runs)


class Lora(Tuner):
    """LoRA (Hu et al., 2021) through PEFT, on the modules that PEFT chooses for the backbone."""

    type: Literal["lora"] = "lora"
    r: PositiveInt = Field(16, description="rank (the paper's)")
    alpha: PositiveInt = Field(32, description="scale of the update is alpha / r (the paper's)")
    dropout: Dropout = Field(0.05, description="on the adapter's input (the paper's)")
    quantize: Literal["4bit"] | None = Field(
        None,
        description="4bit: the backbone's weights as NF4 (QLoRA, Dettmers et al., 2023), which "
        "needs a CUDA device and bitsandbytes; null: as they are",
    )
    learning_rate: LearningRate = 6e-5

    def adapt(self, backbone: PreTrainedModel) -> PeftModel:
        """Return the backbone with a fresh adapter."""
        from rapt.tuning import adapters

        return adapters.lora(backbone, self)


class PromptTuning(Tuner):
    """Virtual tokens before the text (Lester et al., 2021)."""

    type: Literal["prompt-tuning"] = "prompt-tuning"
    tokens: PositiveInt = Field(
        150, description="virtual tokens, which count as positions of the backbone (the paper's)"
    )
    learning_rate: LearningRate = 6e-5

    def adapt(self, backbone: PreTrainedModel) -> PeftModel:
        """Return the backbone with a fresh adapter."""
        from rapt.tuning import adapters

        return adapters.prompt_tuning(backbone, self)


class PrefixTuning(Tuner):
    """Keys and values before the text's, in every layer (Li and Liang, 2021); not for MPNet."""

    type: Literal["prefix-tuning"] = "prefix-tuning"
    tokens: PositiveInt = Field(
        10, description="length of the prefix, which counts as positions (the paper's)"
    )
    learning_rate: LearningRate = 6e-5

    def adapt(self, backbone: PreTrainedModel) -> PeftModel:
        """Return the backbone with a fresh adapter."""
        from rapt.tuning import adapters

        return adapters.prefix_tuning(backbone, self)


class PTuning(Tuner):
    """Virtual tokens, generated by a small network during training (Liu et al., 2021)."""

    type: Literal["p-tuning"] = "p-tuning"
    tokens: PositiveInt = Field(
        20, description="virtual tokens, which count as positions of the backbone"
    )
    hidden: PositiveInt = Field(128, description="width of the network's two hidden layers")
    learning_rate: LearningRate = 6e-5

    def adapt(self, backbone: PreTrainedModel) -> PeftModel:
        """Return the backbone with a fresh adapter."""
        from rapt.tuning import adapters

        return adapters.p_tuning(backbone, self)


class Full(Tuner):
    """Full fine-tuning (of a BiLSTM without its embeddings); a seed writes a whole backbone."""

    type: Literal["full"] = "full"
    learning_rate: LearningRate = 6e-5
    learns: ClassVar = "backbone"

    def adapt(self, backbone: PreTrainedModel) -> PreTrainedModel:
        """Return the backbone, all of whose weights learn."""
        from rapt.tuning import adapters

        return adapters.full(backbone)


class LinearProbe(Tuner):
    """Only the task head learns, by logistic regression on the frozen backbone's activations.

    The backbone reads each text once. There is no reconstruction, which would
    share no weight with the head. Of `train` only batch_size, max_tokens and precision apply.
    """

    type: Literal["linear-probe"] = "linear-probe"
    strength: PositiveFloat = Field(
        0.01, description="1 / the penalty on squared weights, of standardized activations"
    )
    learns: ClassVar = "head"
    kinds: ClassVar = frozenset({"classify"})

    def adapt(self, backbone: PreTrainedModel) -> PreTrainedModel:
        """Return the backbone, frozen."""
        return backbone.requires_grad_(False)

    def fit(self, trainer: Trainer, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Fit the head to the activations; there are no epochs."""
        trainer.fit_head(split, self.strength, checkpoint)
        return {}


class Untuned(Tuner):
    """A language model as it is: nothing learns. Only for tasks of kind choose or generate."""

    type: Literal["untuned"] = "untuned"
    learns: ClassVar = "nothing"
    kinds: ClassVar = frozenset({"choose", "generate"})

    def adapt(self, backbone: PreTrainedModel) -> PreTrainedModel:
        """Return the backbone, frozen."""
        return backbone.requires_grad_(False)

    def fit(self, trainer: Trainer, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Learn nothing."""
        return {}


class Tfidf(Tuner):
    """Logistic regression on TF-IDF of the released words, without a backbone; the cheapest.

    It counts words, pairs of words and characters within words. Cross-validation chooses the
    penalty. There is no reconstruction. Of `train` only held_out and max_tokens apply: a segment's
    leading words.
    """

    type: Literal["tfidf"] = "tfidf"
    learns: ClassVar = "head"
    kinds: ClassVar = frozenset({"classify"})
    reads_words: ClassVar = True

    def adapt(self, backbone: PreTrainedModel) -> PreTrainedModel:
        """Refuse: there is no backbone to adapt."""
        raise NotImplementedError

    def train(self, runs: Sequence[Run]) -> list[Trained]:
        """Fit each seed's regression, without PyTorch."""
        from rapt.tuning import train_tfidf

        return [train_tfidf.train_seed(run) for run in runs]


_Own = Annotated[
    Lora | PromptTuning | PrefixTuning | PTuning | Full | LinearProbe | Untuned | Tfidf,
    Field(discriminator="type"),
]
# Another package adds one by an entry point of this group.
TUNERS: Registry[type[Tuner]] = Registry("rapt.tuners", Tuner, type_of, get_args(get_args(_Own)[0]))
AnyTuner = Annotated[_Own, or_of(TUNERS), SerializeAsAny()]


class Gradient(Section, ABC):
    """How the gradient of a step comes about; `type` is its name, its fields its parameters."""

    type: str

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

    @abstractmethod
    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch, on all weights that learn."""


class Plain(Gradient):
    """The gradient of the losses' sum."""

    type: Literal["plain"] = "plain"

    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch."""
        from rapt.tuning.gradients import PlainStep

        return PlainStep(weights)


class Capped(Gradient):
    """That of the reconstruction limited, as `Reconstruction.cap` says."""

    type: Literal["capped"] = "capped"
    cap: PositiveFloat

    def step(self, weights: Iterable[torch.nn.Parameter]) -> GradientStep:
        """Begin the gradient of one batch."""
        from rapt.tuning.gradients import CappedStep

        return CappedStep(weights, self.cap)


# Another package adds one by an entry point of this group.
GRADIENTS: Registry[type[Gradient]] = Registry("rapt.gradients", Gradient, type_of, [Plain])
AnyGradient = Annotated[Plain, or_of(GRADIENTS), SerializeAsAny()]


class BiLstm(Section):
    """A bidirectional LSTM instead of a model's own layers (Qu et al., 2021); tuner full only."""

    type: Literal["bilstm"] = "bilstm"
    hidden: PositiveInt = Field(
        300, description="width of each direction; an activation is twice as wide"
    )
    layers: PositiveInt = Field(1, description="how many")
    dropout: Dropout = Field(0.0, description="on the input of each layer")


class Backbone(Section):
    """A model to tune."""

    model: Model = Field(
        description="package:NAME/FOLDER (in an installed Python package), a local folder, or "
        "owner/name@REVISION of the hub"
    )
    sha256: Sha256 | None = Field(None, description="of its model.safetensors; null: not checked")
    encoder: BiLstm | None = Field(
        None, description="what reads the model's input embeddings; null: its own layers"
    )


class Reconstruction(Section):
    """The auxiliary task of predicting the plain tokens (RAPT, privatized token reconstruction)."""

    head_size: PositiveInt = Field(96, description="width c of the bottleneck (the paper's)")
    weight: PositiveFloat = Field(1.0, description="of this loss beside the task's (the paper's)")
    reduction: Literal["sum", "mean"] = Field(
        "sum", description="of this loss over a text's plain tokens; the paper has the sum"
    )
    cap: PositiveFloat | None = Field(
        None,
        description="most of its gradient's norm on the weights that both tasks train, as a "
        "multiple of the task's; null: any, as in the paper",
    )


Prior = Annotated[
    Literal["public", "release"],
    Field(
        description="how frequent words are taken to be: as in public text, or as that and the "
        "release together suggest"
    ),
]


class Denoiser(Section):
    """The provider's denoising of released words, by its knowledge of the mechanism."""

    type: Literal["posterior-mean", "posterior-sample"] = Field(
        description="a word's embedding is the mean over what it may have been; posterior-sample: "
        "while training that of one of these, drawn anew at each step",
    )
    prior: Prior = "release"


class PosteriorTarget(Reconstruction):
    """Words as released, and the auxiliary task of predicting what each of them may have been.

    Its target is the posterior P(w|y). It takes the place of the method's own reconstruction.
    """

    type: Literal["posterior-target"]
    prior: Prior = "release"


DenoiserType = Literal["posterior-mean", "posterior-sample", "posterior-target"]


@dataclass(frozen=True, eq=False)
class Denoising:
    """Denoising by the posterior P(w|y) of R released words y over V words w, float64 (R, V)."""

    type: DenoiserType
    released: list[str]
    words: list[str]
    posterior: csr_array


class TrainConfig(Section):
    """The training loop, for every tuner. The paper has 4 epochs, batches of 128, 128 tokens."""

    epochs: PositiveInt = Field(3, description="passes over the training split")
    batch_size: PositiveInt = Field(16, description="texts in a step")
    max_tokens: int = Field(
        64,
        ge=8,
        description="of a text that the backbone sees; plain and virtual tokens come on top and "
        "are never cut",
    )
    warmup: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of the steps over which the learning rate rises",
    )
    schedule: Literal["linear", "constant"] = Field(
        "linear",
        description="after the warmup: a linear fall to 0 (Qu et al., 2021), or constant (RAPT)",
    )
    weight_decay: float = Field(0.0, ge=0, description="of AdamW")
    held_out: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="share of the training rows that are not tuned on; by them the user weighs "
        "the provider's answers against a local model's",
    )
    precision: Precision = Field(
        "float32",
        description="of the backbone's matrix products, and of its frozen weights; bf16 is much "
        "faster on a GPU, and on a CPU with bfloat16 instructions",
    )

    gradient: AnyGradient = Field(
        default_factory=Plain, description="of a step; plain: that of the losses' sum"
    )

    def holds_out(self, rows: int) -> list[bool]:
        """Return for each training row whether it is held out: spread evenly, in every seed."""
        return [int((i + 1) * self.held_out) > int(i * self.held_out) for i in range(rows)]


class Decoding(Section):
    """How a text is written, of kind generate: by beam search, without sampling."""

    beams: PositiveInt = Field(5, description="of the search; 1: the likeliest token each time")
    max_new_tokens: PositiveInt = Field(100, description="of a written text")
    repetition_penalty: float = Field(
        1.0,
        ge=1,
        description="divides the scores of tokens that were written before (Keskar et al., 2019); "
        "1: none. Tokens of the source do not count, as entities are copied from it",
    )
    chat: bool = Field(
        False,
        description="whether a source or a question is a user's turn in the model's chat template, "
        "also while tuning; for models that were tuned to chat",
    )


@dataclass(frozen=True)
class Run:
    """Seed number k of one cell, of an experiment with the root seed `seed`.

    Attributes:
        release: folder of the release (docs/data.md): the only data a run reads.
        backbone: folder of the model; its name and digest are those in params.yaml.
        adapter: folder to write the adapter and the task head to.
    """

    cell: str
    release: Path
    k: int
    seed: int
    backbone: Path
    backbone_name: str
    backbone_sha256: str | None
    encoder: BiLstm | None
    tuner: Tuner
    reconstruction: Reconstruction | None
    denoising: Denoising | None
    train: TrainConfig
    adapter: Path
    decoding: Decoding = field(default_factory=Decoding)

    @property
    def learning_rate(self) -> float:
        """The tuner's; 0 for one that takes no steps."""
        return float(getattr(self.tuner, "learning_rate", 0.0))

    @property
    def quantize(self) -> Literal["4bit"] | None:
        """The tuner's, which all but LoRA lack."""
        return getattr(self.tuner, "quantize", None)

    @property
    def frozen(self) -> Precision | None:
        """The type of the backbone's weights if they are frozen; None: they learn."""
        return None if self.tuner.learns == "backbone" or self.encoder else self.train.precision

    @property
    def gradient(self) -> Gradient:
        """The gradient of a step: `train.gradient`, or capped where the reconstruction's is."""
        cap = self.reconstruction.cap if self.reconstruction else None
        return self.train.gradient if cap is None else Capped(cap=cap)


@dataclass(frozen=True)
class Trained:
    """A trained seed, and the name of the device that trained it.

    Its logits are float32 (n, classes) by split, of texts that it was not tuned on: `test`, and
    `train` for the rows held out. Of kind generate it has instead the text that it wrote for each
    row of the test split. The caller removes the checkpoint once the cell is written. Until
    then a finished seed is only scored again. None: a fit that takes seconds has none.
    """

    result: SeedResult
    logits: dict[str, NDArray[np.float32]] = field(compare=False)
    device: str
    checkpoint: Path | None
    written: list[str] | None = None
