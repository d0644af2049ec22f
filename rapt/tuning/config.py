"""What a training run is told: frozen dataclasses, as a provider's machine may lack pydantic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lora:
    """LoRA (Hu et al., 2021) on the modules that PEFT chooses for the backbone.

    Attributes:
        r: rank.
        alpha: scale of the update is alpha / r.
        dropout: on the adapter's input.
        learning_rate: highest, of the adapter and of the heads.
    """

    r: int
    alpha: int
    dropout: float
    learning_rate: float


@dataclass(frozen=True)
class Reconstruction:
    """The second task (RAPT, privatized token reconstruction).

    Attributes:
        head_size: width c of the head's bottleneck.
        weight: of the loss, a sum over the plain tokens, beside the task's.
    """

    head_size: int
    weight: float


@dataclass(frozen=True)
class Loop:
    """The training loop.

    Attributes:
        epochs: passes over the training split.
        batch_size: texts in a step.
        max_tokens: of a text; plain tokens come on top and are never cut.
        warmup: share of the steps over which the learning rate rises; it then falls linearly to 0.
        weight_decay: of AdamW.
    """

    epochs: int
    batch_size: int
    max_tokens: int
    warmup: float
    weight_decay: float


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
        tuner: the PEFT method.
        reconstruction: the second task; None: plain tokens, if any, are only read.
        loop: the training loop.
        adapter: folder to write the adapter and the task head to.
    """

    cell: str
    release: Path
    k: int
    seed: int
    backbone: Path
    backbone_name: str
    tuner: Lora
    reconstruction: Reconstruction | None
    loop: Loop
    adapter: Path
