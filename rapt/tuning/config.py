"""What a training run is told. Defaults are the papers'; params.yaml (rapt.params) has none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scipy.sparse import csr_array

# What a backbone is computed with in; heads, losses and whatever learns stay in float32.
Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Lora:
    """LoRA (Hu et al., 2021) on the modules that PEFT chooses for the backbone.

    Attributes:
        r: rank.
        alpha: scale of the update is alpha / r.
        dropout: on the adapter's input.
        quantize: 4bit: the backbone's weights as NF4 (QLoRA, Dettmers et al., 2023).
        learning_rate: highest, of the adapter and of the heads.
    """

    r: int = 16
    alpha: int = 32
    dropout: float = 0.05
    quantize: Literal["4bit"] | None = None
    learning_rate: float = 6e-5


@dataclass(frozen=True)
class PromptTuning:
    """Prompt tuning (Lester et al., 2021): vectors before the text's embeddings.

    Attributes:
        tokens: number of virtual tokens; positions are theirs too.
        learning_rate: highest, of the vectors and of the heads.
    """

    tokens: int = 150
    learning_rate: float = 6e-5


@dataclass(frozen=True)
class PrefixTuning:
    """Prefix tuning (Li and Liang, 2021): keys and values before the text's, in every layer.

    Attributes:
        tokens: length of the prefix; positions are its too.
        learning_rate: highest, of the prefix and of the heads.
    """

    tokens: int = 10
    learning_rate: float = 6e-5


@dataclass(frozen=True)
class PTuning:
    """P-tuning (Liu et al., 2021): virtual tokens from a small network, dropped after training.

    Attributes:
        tokens: number of virtual tokens; positions are theirs too.
        hidden: width of the network, two hidden layers.
        learning_rate: highest, of the network and of the heads.
    """

    tokens: int = 20
    hidden: int = 128
    learning_rate: float = 6e-5


@dataclass(frozen=True)
class Full:
    """Full fine-tuning: every weight learns, of a BiLSTM all but its embeddings.

    Attributes:
        learning_rate: highest, of the backbone and of the heads.
    """

    learning_rate: float = 6e-5


Tuner = Lora | PromptTuning | PrefixTuning | PTuning | Full
# By `type` in params.yaml. Defaults are the paper's (RAPT, NLU), but for p-tuning, which it lacks.
TUNERS: dict[str, type[Tuner]] = {
    "lora": Lora,
    "prompt-tuning": PromptTuning,
    "prefix-tuning": PrefixTuning,
    "p-tuning": PTuning,
    "full": Full,
}


@dataclass(frozen=True)
class BiLstm:
    """A bidirectional LSTM in place of a model's own layers (Qu et al., 2021).

    Attributes:
        hidden: width of each direction; an activation is twice as wide.
        layers: how many.
        dropout: on the input of each layer.
    """

    hidden: int
    layers: int
    dropout: float


@dataclass(frozen=True)
class Reconstruction:
    """The second task (RAPT, privatized token reconstruction).

    Attributes:
        head_size: width c of the head's bottleneck.
        weight: of the loss beside the task's.
        reduction: of the loss over a text's plain tokens (RAPT: sum).
    """

    head_size: int
    weight: float
    reduction: Literal["sum", "mean"]


Denoiser = Literal["posterior-mean", "posterior-sample"]


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

    type: Denoiser
    released: list[str]
    words: list[str]
    posterior: csr_array


@dataclass(frozen=True)
class Loop:
    """The training loop.

    Attributes:
        epochs: passes over the training split.
        batch_size: texts in a step.
        max_tokens: of a text; plain tokens come on top and are never cut.
        warmup: share of the steps over which the learning rate rises; it then falls linearly to 0.
        weight_decay: of AdamW.
        precision: of the backbone's matrix products, and of its weights where they are frozen.
    """

    epochs: int
    batch_size: int
    max_tokens: int
    warmup: float
    weight_decay: float
    precision: Precision


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
        loop: the training loop.
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
    loop: Loop
    adapter: Path

    @property
    def quantize(self) -> Literal["4bit"] | None:
        """How the backbone's weights are quantized."""
        return self.tuner.quantize if isinstance(self.tuner, Lora) else None

    @property
    def frozen(self) -> Precision | None:
        """What the backbone's weights are held in where they are frozen; None: they learn."""
        return None if isinstance(self.tuner, Full) or self.encoder else self.loop.precision
