"""How a backbone is tuned: sections of params.yaml.

Defaults are the paper's (RAPT, NLU) if their help says so. This module does not import torch, as
every command reads params.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, PositiveFloat, PositiveInt, SerializeAsAny, model_validator

from rapt.param_types import Section, or_of, problem, type_of
from rapt.tuning.strategies import Gradient, Private
from rapt.utils.registry import Registry

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rapt.kinds.base import Kind
    from rapt.tuning.backbones import AnyModel
    from rapt.tuning.checkpoints import Checkpoint
    from rapt.tuning.config import Run, Trained
    from rapt.tuning.inputs import Split
    from rapt.tuning.trainer import Trainer

    KindOfTask = type[Kind]  # here, as `type` is a field of the classes below

LearningRate = Annotated[
    PositiveFloat, Field(description="the highest, of AdamW; the paper's is 6e-5 for all tuners")
]
Dropout = Annotated[float, Field(ge=0, lt=1)]
FederatedLaw = Literal["sampled", "tree", "banded"]


class Federated(Section):
    """Tuning among clients: each keeps its texts, and sends how its weights have changed.

    The unit of its guarantee is a client, with all its texts. Of `train` the batch size and the
    rest apply to what a client does in a round, but its learning rate is constant.
    """

    clients: int = Field(ge=3, description="equal random shares of the training texts, simulated")
    rounds: int = Field(20, ge=1, le=1000, description="sums of the clients' changes")
    rate: float = Field(
        0.2, gt=0, le=1, description="share of the clients that takes part in a round, on average"
    )
    law: FederatedLaw = Field(
        "sampled",
        description="sampled: each round draws its clients (DP-FedAvg, McMahan et al., 2018). "
        "tree, banded: each client has its turn once in 1 / rate rounds, and the noise of the "
        "rounds is correlated (DP-FTRL, Kairouz et al., 2021)",
    )
    epsilon: PositiveFloat | None = Field(
        None, description="that all rounds may spend on a client; null: no noise, and no guarantee"
    )
    delta: float = Field(1e-3, gt=0, lt=1, description="below 1 / clients")
    clip: PositiveFloat = Field(1.0, description="norm that a client's change may have")
    adaptive: bool = Field(
        False,
        description="whether the norm begins at clip and follows the median (Andrew et al., 2021), "
        "which costs a little; of the law sampled alone",
    )
    epochs: PositiveInt = Field(1, description="passes of a client over its texts in a round")
    server_rate: PositiveFloat = Field(
        1.0, description="by which the server multiplies the mean change"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Federated:
        if self.adaptive and self.law != "sampled":
            raise problem(
                f"got adaptive with law {self.law}, expected sampled: the noise of its rounds is "
                "correlated, and needs one norm."
            )
        if self.epsilon is not None and self.delta >= 1 / self.clients:
            raise problem(
                f"got delta {self.delta:g} for {self.clients} clients, expected less than "
                f"{1 / self.clients:.2g}. At more a training that publishes one client would do."
            )
        return self


class Tuner(Section, ABC):
    """How a backbone is tuned; `type` is its name, its fields are its parameters.

    One that takes steps of AdamW has a field `learning_rate`.

    Attributes:
        learns: what learns, beside the heads: all of the backbone, or an adapter on frozen weights.
            `head`: the task's head alone. `nothing`: the model stays as it is.
        reads_words: whether it reads words as they are, and has no backbone.
        by_layer: whether each weight that learns is of a layer that reads each text of a batch by
            itself. The gradients of single texts are then computed from what layers read, together.
            Virtual tokens are read once for all texts.
    """

    type: str
    learns: ClassVar[Literal["backbone", "adapter", "head", "nothing"]] = "adapter"
    reads_words: ClassVar[bool] = False
    by_layer: ClassVar[bool] = False

    @model_validator(mode="after")
    def _one_promise(self) -> Self:
        if getattr(self, "private", None) and getattr(self, "federated", None):
            raise problem(
                "got private and federated, expected one: the noise of a federated training is the "
                "server's, for a client with all its texts."
            )
        return self

    def takes_steps(self, gradient: Gradient) -> bool:
        """Return whether it takes steps of AdamW, along such a gradient."""
        return "learning_rate" in type(self).model_fields

    @classmethod
    def fits(cls, kind: KindOfTask) -> bool:
        """Return whether it can train a model for a kind of task."""
        return True

    @classmethod
    def takes_fresh(cls) -> bool:
        """Return whether it can train a backbone whose weights are fresh, as a BiLSTM's are."""
        return cls.learns == "backbone"

    def adapt(self, backbone: PreTrainedModel) -> AnyModel:
        """Return the backbone with a fresh adapter: frozen where none is added (see `learns`).

        Raises:
            RaptError: the backbone does not support it.
        """
        return backbone.requires_grad_(False)

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


class Adapting(Tuner):
    """A tuner that a function of rapt.tuning.adapters prepares a backbone for."""

    def adapt(self, backbone: PreTrainedModel) -> AnyModel:
        """Return the backbone as the function for this type makes it."""
        from rapt.tuning.adapters import MAKE

        return MAKE[self.type](backbone, self)


class Lora(Adapting):
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
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")
    by_layer: ClassVar = True


class PromptTuning(Adapting):
    """Virtual tokens before the text (Lester et al., 2021)."""

    type: Literal["prompt-tuning"] = "prompt-tuning"
    tokens: PositiveInt = Field(
        150, description="virtual tokens, which count as positions of the backbone (the paper's)"
    )
    learning_rate: LearningRate = 6e-5
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")


class PrefixTuning(Adapting):
    """Keys and values before the text's, in every layer (Li and Liang, 2021); not for MPNet."""

    type: Literal["prefix-tuning"] = "prefix-tuning"
    tokens: PositiveInt = Field(
        10, description="length of the prefix, which counts as positions (the paper's)"
    )
    learning_rate: LearningRate = 6e-5
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")
    by_layer: ClassVar = True


class PTuning(Adapting):
    """Virtual tokens, generated by a small network during training (Liu et al., 2021)."""

    type: Literal["p-tuning"] = "p-tuning"
    tokens: PositiveInt = Field(
        20, description="virtual tokens, which count as positions of the backbone"
    )
    hidden: PositiveInt = Field(128, description="width of the network's two hidden layers")
    learning_rate: LearningRate = 6e-5
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")


class Full(Adapting):
    """Full fine-tuning (of a BiLSTM without its embeddings); a seed writes a whole backbone."""

    type: Literal["full"] = "full"
    learning_rate: LearningRate = 6e-5
    private: Private | None = Field(None, description="differentially private training; null: not")
    learns: ClassVar = "backbone"


class BitFit(Adapting):
    """Only the backbone's biases learn (Ben Zaken et al., 2022), for backbones that have some.

    With private training: DP-BiTFiT (Bu et al., 2024). A seed writes a whole backbone.
    """

    type: Literal["bitfit"] = "bitfit"
    learning_rate: LearningRate = Field(1e-3, description="the highest, of AdamW")
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")
    learns: ClassVar = "backbone"
    by_layer: ClassVar = True

    @classmethod
    def takes_fresh(cls) -> bool:
        """Return that it cannot."""
        return False


class LinearProbe(Tuner):
    """Only the task head learns, by logistic regression on the frozen backbone's activations.

    The backbone reads each text once. There is no reconstruction, which would
    share no weight with the head. Of `train` only batch_size, max_tokens and precision apply.
    Private and federated training take the steps of `train` instead.
    """

    type: Literal["linear-probe"] = "linear-probe"
    strength: PositiveFloat = Field(
        0.01, description="1 / the penalty on squared weights, of standardized activations"
    )
    learning_rate: LearningRate = Field(0.01, description="of private or federated training alone")
    private: Private | None = Field(None, description="differentially private training; null: not")
    federated: Federated | None = Field(None, description="tuning among clients; null: not")
    learns: ClassVar = "head"
    by_layer: ClassVar = True

    def takes_steps(self, gradient: Gradient) -> bool:
        """Return whether the training is private or federated: else the head has a solution."""
        return isinstance(gradient, Private) or self.federated is not None

    @classmethod
    def fits(cls, kind: KindOfTask) -> bool:
        """Return whether a linear head answers."""
        return kind.has_classes and not kind.is_language_model

    def fit(self, trainer: Trainer, split: Split, checkpoint: Checkpoint) -> dict[str, list[float]]:
        """Fit the head to the activations; there are no epochs, if it is not private."""
        if self.takes_steps(trainer.run.gradient):
            return trainer.take_steps(split, checkpoint)
        trainer.fit_head(split, self.strength, checkpoint)
        return {}


class Untuned(Tuner):
    """A language model as it is: nothing learns. Only where that answers."""

    type: Literal["untuned"] = "untuned"
    learns: ClassVar = "nothing"

    @classmethod
    def fits(cls, kind: KindOfTask) -> bool:
        """Return whether an untuned model can answer."""
        return kind.is_language_model

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
    reads_words: ClassVar = True

    @classmethod
    def fits(cls, kind: KindOfTask) -> bool:
        """Return whether a linear head answers."""
        return kind.has_classes and not kind.is_language_model

    def train(self, runs: Sequence[Run]) -> list[Trained]:
        """Fit each seed's regression, without PyTorch."""
        from rapt.tuning import train_tfidf

        return [train_tfidf.train_seed(run) for run in runs]


_Own = Annotated[
    Lora | PromptTuning | PrefixTuning | PTuning | Full | BitFit | LinearProbe | Untuned | Tfidf,
    Field(discriminator="type"),
]
# Another package adds one by an entry point of this group.
TUNERS: Registry[type[Tuner]] = Registry("rapt.tuners", Tuner, type_of, get_args(get_args(_Own)[0]))
AnyTuner = Annotated[_Own, or_of(TUNERS), SerializeAsAny()]
