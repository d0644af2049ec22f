"""What a training run is told: the sections of params.yaml on tuning, and a run of one seed.

Defaults are the paper's (RAPT, NLU) where their help says so. No torch: every command reads params.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from rapt.param_types import Model, Section, Sha256

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# What a backbone is computed with in; heads, losses and whatever learns stay in float32.
Precision = Literal["float32", "bf16"]
LearningRate = Annotated[
    PositiveFloat, Field(description="the highest, of AdamW; the paper's is 6e-5 for all tuners")
]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class Lora(Section):
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


class PromptTuning(Section):
    """Virtual tokens before the text (Lester et al., 2021)."""

    type: Literal["prompt-tuning"] = "prompt-tuning"
    tokens: PositiveInt = Field(
        150, description="virtual tokens, which count as positions of the backbone (the paper's)"
    )
    learning_rate: LearningRate = 6e-5


class PrefixTuning(Section):
    """Keys and values before the text's, in every layer (Li and Liang, 2021); not for MPNet."""

    type: Literal["prefix-tuning"] = "prefix-tuning"
    tokens: PositiveInt = Field(
        10, description="length of the prefix, which counts as positions (the paper's)"
    )
    learning_rate: LearningRate = 6e-5


class PTuning(Section):
    """Virtual tokens that a small network makes while it is trained (Liu et al., 2021)."""

    type: Literal["p-tuning"] = "p-tuning"
    tokens: PositiveInt = Field(
        20, description="virtual tokens, which count as positions of the backbone"
    )
    hidden: PositiveInt = Field(128, description="width of the network's two hidden layers")
    learning_rate: LearningRate = 6e-5


class Full(Section):
    """Every weight learns, of a BiLSTM all but its embeddings; a seed writes a whole backbone."""

    type: Literal["full"] = "full"
    learning_rate: LearningRate = 6e-5


class LinearProbe(Section):
    """The task head alone learns, by logistic regression on what the frozen backbone computes.

    Each text is read once: the cheapest tuner. A reconstruction would share no weight with the
    head, so there is none. Of `train` only batch_size, max_tokens and precision count.
    """

    type: Literal["linear-probe"] = "linear-probe"
    strength: PositiveFloat = Field(
        0.01, description="1 / the penalty on squared weights, of standardized activations"
    )


Tuner = Annotated[
    Lora | PromptTuning | PrefixTuning | PTuning | Full | LinearProbe, Field(discriminator="type")
]


class BiLstm(Section):
    """A bidirectional LSTM in place of a model's own layers (Qu et al., 2021): tuner full alone."""

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
    """The second task: to predict the plain tokens (RAPT, privatized token reconstruction)."""

    head_size: PositiveInt = Field(96, description="width c of the bottleneck (the paper's)")
    weight: PositiveFloat = Field(1.0, description="of this loss beside the task's (the paper's)")
    reduction: Literal["sum", "mean"] = Field(
        "sum", description="of this loss over a text's plain tokens; the paper has the sum"
    )


DenoiserType = Literal["posterior-mean", "posterior-sample"]


class Denoiser(Section):
    """What the provider makes of a released word, knowing the mechanism."""

    type: DenoiserType = Field(
        description="a word's embedding is the mean over what it may have been; posterior-sample: "
        "while training that of one of these, drawn anew at each step",
    )
    prior: Literal["public", "release"] = Field(
        "release",
        description="how frequent words are taken to be: as in public text, or as that and the "
        "release together suggest",
    )


@dataclass(frozen=True, eq=False)
class Denoising:
    """How released words are read: as what they may have been, P(w|y).

    Attributes:
        type: whether a word is the mean embedding of its originals, or while training that of one
            drawn at each step.
        released: the R words y.
        words: the V words w.
        posterior: float64 (R, V), each row sums to 1.
    """

    type: DenoiserType
    released: list[str]
    words: list[str]
    posterior: csr_array


class TrainConfig(Section):
    """The training loop, for every tuner. The paper's: 4 epochs, batches of 128, 128 tokens."""

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
        description="share of the steps over which the learning rate rises; it then falls "
        "linearly to 0 (Qu et al., 2021)",
    )
    weight_decay: float = Field(0.0, ge=0, description="of AdamW")
    precision: Precision = Field(
        "float32",
        description="of the backbone's matrix products, and of its weights where they are frozen; "
        "bf16 is much faster on a GPU, on a CPU only where it knows bfloat16",
    )


@dataclass(frozen=True)
class Run:
    """One seed of one cell.

    Attributes:
        cell: its name, for messages.
        release: folder of the release (docs/data.md): the only data a run reads.
        k: the seed's number within the release.
        seed: root seed of the experiment.
        backbone: folder of the model.
        backbone_name: the model as params.yaml names it, written into the adapter's config.
        backbone_sha256: of its weights, as params.yaml has it; None: not checked.
        encoder: what reads the model's input embeddings; None: its own layers.
        tuner: the tuning method.
        reconstruction: the second task; None: plain tokens, if any, are only read.
        denoising: how released words are read; None: as they are.
        train: the training loop.
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

    @property
    def learning_rate(self) -> float:
        """The highest of AdamW; 0 where nothing is learned in steps."""
        return 0.0 if isinstance(self.tuner, LinearProbe) else self.tuner.learning_rate

    @property
    def quantize(self) -> Literal["4bit"] | None:
        """How the backbone's weights are quantized."""
        return self.tuner.quantize if isinstance(self.tuner, Lora) else None

    @property
    def frozen(self) -> Precision | None:
        """What the backbone's weights are held in where they are frozen; None: they learn."""
        return None if isinstance(self.tuner, Full) or self.encoder else self.train.precision
