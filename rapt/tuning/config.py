"""Configuration of a training run: sections of params.yaml on tuning, and the run of one seed.

Defaults are the paper's (RAPT, NLU) if their help says so. This module does not import torch, as
every command reads params.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from rapt.param_types import Model, Names, Section, Sha256
from rapt.tuning.strategies import AnyGradient, Capped, Gradient, Plain
from rapt.tuning.tuners import Dropout, Tuner
from rapt.utils import process

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from rapt.federated.simulation import Simulation
    from rapt.kinds.base import Kind
    from rapt.results.cells import SeedResult

# Precision of a backbone's computations; heads, losses and trained weights stay in float32.
Precision = Literal["float32", "bf16"]


class BiLstm(Section):
    """A bidirectional LSTM instead of a model's own layers (Qu et al., 2021); tuner full only."""

    type: Literal["bilstm"] = "bilstm"
    hidden: PositiveInt = Field(
        300, description="width of each direction; an activation is twice as wide"
    )
    layers: PositiveInt = Field(1, description="how many")
    dropout: Dropout = Field(0.0, description="on the input of each layer")


class Pretraining(Section):
    """Pretraining of a backbone on public text that has the users' noise (Qu et al., 2021)."""

    corpus: Names = Field(
        min_length=1, description="tasks whose training rows are the public text; none is tuned on"
    )
    method: str = Field(description="whose noise the text gets")
    eta: PositiveFloat | None = Field(
        description="of the noise; null: none, the control with equal steps"
    )
    objective: Literal["vanilla", "prob", "denoising"] = Field(
        "denoising",
        description="what a masked word is: as released; as the channel releases it, on average; "
        "or as it was",
    )
    next_sentence: bool = Field(
        False, description="whether it also learns which of two texts follows the other"
    )
    masked: float = Field(0.15, gt=0, lt=1, description="share of the words, at most 20 a text")
    draws: PositiveInt = Field(50, description="of each word, of which its channel is made")
    steps: PositiveInt = Field(2000, description="of the optimizer")
    batch_size: PositiveInt = Field(32, description="texts in a step; the paper has 256")
    max_tokens: int = Field(128, ge=8, description="of a text or a pair")
    learning_rate: PositiveFloat = Field(2e-5, description="of AdamW, falling linearly to 0")
    warmup: float = Field(0.01, ge=0, lt=1, description="share of the steps over which it rises")
    head_steps: NonNegativeInt = Field(
        1000, description="on clean text, of a fresh head alone; 0: the model's files have a head"
    )
    head_learning_rate: PositiveFloat = Field(1e-3, description="of these")
    checks: PositiveInt = Field(
        5,
        description="how often it is scored on the corpus' test rows; the best weights are kept",
    )


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
    pretrained: Pretraining | None = Field(
        None, description="what is learned from public text before; null: nothing"
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
    shards: PositiveInt = Field(
        1,
        description="disjoint shares of the training rows, one for each seed: the teachers of "
        "private prediction; 1: every seed tunes on all rows",
    )
    precision: Precision = Field(
        "float32",
        description="of the backbone's matrix products, and of its frozen weights; bf16 is much "
        "faster on a GPU, and on a CPU with bfloat16 instructions",
    )
    gradient_checkpointing: bool = Field(
        False,
        description="whether the backward pass computes each layer's activations again instead of "
        "keeping them: less memory, a third more time; not with prefix-tuning",
    )
    gradient: AnyGradient = Field(
        default_factory=Plain, description="of a step; plain: that of the losses' sum"
    )

    def holds_out(self, rows: int) -> list[bool]:
        """Return for each training row whether it is held out: spread evenly, in every seed."""
        return [int((i + 1) * self.held_out) > int(i * self.held_out) for i in range(rows)]

    def tunes_on(self, rows: int, k: int) -> list[int]:
        """Return the training rows that seed k tunes on: those not held out, or its shard of them.

        A row's number alone decides its shard, whatever the experiment's seed: teachers of the same
        rows are disjoint, and another text in a row changes one of them. A hash shuffles the rows,
        as their order may tell classes apart.
        """
        tuned = [row for row, held in enumerate(self.holds_out(rows)) if not held]
        if self.shards == 1:
            return tuned
        shuffled = sorted(tuned, key=lambda row: sha256(str(row).encode()).digest())
        return sorted(shuffled[k :: self.shards])


class Decoding(Section):
    """How a language model writes a text: by beam search, without sampling."""

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

    def choice(self) -> dict[str, Any]:
        """Return how a token is chosen, as Transformers names it."""
        return {"num_beams": self.beams, "do_sample": False}


class Sampling(Section):
    """How a language model draws a text, token by token."""

    max_new_tokens: PositiveInt = Field(64, description="of a text")
    temperature: PositiveFloat = Field(1.0, description="divides the scores of tokens")
    top_k: PositiveInt = Field(50, description="likeliest tokens that may be drawn")
    top_p: float = Field(
        0.9, gt=0, le=1, description="of these the likeliest, until they have this probability"
    )
    repetition_penalty: float = Field(
        1.0, ge=1, description="divides the scores of tokens that were written before; 1: none"
    )
    chat: bool = Field(
        False,
        description="whether a prompt is a user's turn in the model's chat template; for models "
        "that were tuned to chat",
    )

    def choice(self) -> dict[str, Any]:
        """Return how a token is chosen, as Transformers names it."""
        drawn = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        return {"do_sample": True, **drawn}


@dataclass(frozen=True)
class Run:
    """Seed number k of one cell, of an experiment with the root seed `seed`.

    Attributes:
        release: folder of the release (docs/data.md): the only data a run reads.
        backbone: folder of the model; its name and digest are those in params.yaml.
        adapter: folder to write the adapter and the task head to.
        kind: of the task, as the release's statement says.
        fitting: what trains in the place of the tuner's own steps; None: the tuner does.
        beside: whether other seeds share its GPU. Without memory for a step it then ends, to run
            again alone; alone it computes the step in smaller parts, which rounds otherwise.
    """

    cell: str
    release: Path
    k: int
    seed: int
    backbone: Path
    backbone_name: str
    tuner: Tuner
    train: TrainConfig
    adapter: Path
    kind: Kind
    backbone_sha256: str | None = None
    encoder: BiLstm | None = None
    reconstruction: Reconstruction | None = None
    denoising: Denoising | None = None
    decoding: Decoding = field(default_factory=Decoding)
    fitting: Simulation | None = None
    beside: bool = False

    @property
    def learning_rate(self) -> float:
        """The tuner's; 0 for one that takes no steps."""
        takes_steps = self.tuner.takes_steps(self.gradient)
        return float(getattr(self.tuner, "learning_rate", 0.0)) if takes_steps else 0.0

    @property
    def cards(self) -> int:
        """How many cards train a seed together: RAPT_CARDS, of a tuner that takes steps."""
        return process.cards() if self.learning_rate else 1

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
        """The gradient of a step: the tuner's, `train.gradient`, or that with a capped part."""
        cap = self.reconstruction.cap if self.reconstruction else None
        if private := getattr(self.tuner, "private", None):
            return cast(Gradient, private)
        return self.train.gradient if cap is None else Capped(cap=cap)


@dataclass(frozen=True)
class Trained:
    """A trained seed, and the name of the device that trained it.

    `training` is what a private training promises (`CellResult`). Its answers are by split, to
    texts that it was not tuned on: `test`, and `train` for the rows held out. Each is what its kind
    of task keeps (`Kind.kept`). The caller removes the checkpoint once the cell is written. Until
    then a finished seed is only scored again. None: a fit that takes seconds has none.
    """

    result: SeedResult
    answers: dict[str, Any] = field(compare=False)
    device: str
    checkpoint: Path | None
    training: dict[str, float] | None = None
