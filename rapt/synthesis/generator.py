"""A language model that is tuned by DP-SGD on labelled texts, and then writes new ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, SerializeAsAny, model_validator

from rapt.param_types import Typed, problem
from rapt.synthesis.base import Draw, Made, PrivateTexts, Synthesizer, of_class, without_empty
from rapt.tuning.strategies import Private
from rapt.tuning.tuners import AnyTuner, Lora
from rapt.utils.errors import RaptError


class Generator(Synthesizer):
    """DP-SGD on texts that follow their class; then texts are drawn for each class.

    What is drawn from the tuned model costs nothing more (Yue et al., 2022).
    """

    type: Literal["generator"] = "generator"
    tuner: Annotated[SerializeAsAny[AnyTuner], Typed] = Field(
        Lora(learning_rate=1e-3), description="how the model is tuned, without `private`"
    )
    epochs: PositiveInt = Field(3, description="passes over the private texts, on average")
    batch_size: PositiveInt = Field(32, description="private texts in a step, on average")
    max_tokens: int = Field(64, ge=8, description="of a private text that are read")

    @model_validator(mode="after")
    def _private(self) -> Generator:
        if getattr(self.tuner, "private", self) is not None or self.tuner.learns == "head":
            raise problem(
                f"got tuner {self.tuner.type}, expected one that can train a language model "
                "privately, without `private`: the synthesizer has the ε."
            )
        if getattr(self.tuner, "federated", None):
            raise problem("got tuner with federated, expected one without: the texts are here.")
        return self

    def write(self, private: PrivateTexts, sizes: Sequence[int], draw: Draw) -> Made:
        """See Synthesizer."""
        from rapt.kinds.generate import Generate
        from rapt.synthesis.author import Author
        from rapt.tuning.checkpoints import Saved
        from rapt.tuning.config import Run, TrainConfig
        from rapt.tuning.trainer import Trainer
        from rapt.tuning.writing import cut
        from rapt.utils import files
        from rapt.utils.device import device_name

        if self.batch_size > len(private.texts):
            raise RaptError(
                f"batch_size: got {self.batch_size} for {len(private.texts)} texts, expected at "
                "most these."
            )
        draw.seed_torch()
        how = Private(epsilon=draw.epsilon, delta=self.delta)
        tuner = self.tuner.model_copy(update={"private": how})
        number, *names = draw.names
        name = "-".join(map(str, names))
        run = Run(
            cell=name,
            release=Path(),
            k=int(number),
            seed=draw.seed,
            backbone=draw.folder,
            backbone_name=self.model,
            backbone_sha256=self.sha256,
            tuner=tuner,
            train=TrainConfig(
                epochs=self.epochs, batch_size=self.batch_size, precision=self.precision
            ),
            adapter=Path(),
            kind=Generate(),
        )
        author = Author(self, draw.folder, tuner)
        prompts = of_class(self, private.names)
        texts = [
            cut(author.tokenizer, " ".join(text.split()), self.max_tokens) for text in private.texts
        ]
        split = author.read([prompts[label] for label in private.labels], texts)
        trainer = Trainer(run, author.model, int(author.tokenizer.pad_token_id))
        read = json.dumps([texts, private.labels.tolist(), prompts])
        inputs = {
            "texts": hashlib.sha256(read.encode()).hexdigest(),
            "model": files.sha256(draw.folder),
            "how": self.model_dump(mode="json"),
            "draw": [draw.epsilon, draw.seed, *draw.names],
            "device": device_name(),
        }
        checkpoint = Saved(inputs, f"{name}, seed {number}")
        trainer.take_steps(split, checkpoint)
        written = author.write([p for p, n in zip(prompts, sizes, strict=True) for _ in range(n)])
        every = iter(written)
        made = [[next(every) for _ in range(size)] for size in sizes]
        found = without_empty(made, trainer.gradient.statement())
        return found._replace(checkpoint=checkpoint.path)
