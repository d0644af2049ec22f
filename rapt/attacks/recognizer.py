"""The token classifier that an attacker trains to recognize entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

from rapt import models
from rapt.attacks import encoders
from rapt.attacks.base import Texts
from rapt.attacks.entities import Ner
from rapt.tuning.backbones import most_tokens
from rapt.tuning.batches import by_length, shuffled
from rapt.tuning.loading import load_tokenizer
from rapt.utils.errors import RaptError

OUTSIDE = "O"
IGNORED = -100  # the label of tokens that the loss leaves out
BATCH = 32


class Part(NamedTuple):
    """One input of the model: a text, or as much of it as the model takes.

    Attributes:
        text: the text's number.
        inputs: the model's inputs, by name.
        words: position of a word's first token → number of the word in its text.
    """

    text: int
    inputs: dict[str, list[int]]
    words: dict[int, int]

    @property
    def length(self) -> int:
        """The number of tokens."""
        return len(self.inputs["input_ids"])


@dataclass(frozen=True, eq=False)
class Recognizer:
    """An encoder that tags each word by its first token.

    Attributes:
        model: the encoder with its head.
        tokenizer: the encoder's tokenizer.
        max_tokens: most tokens of a part, special tokens included.
    """

    model: Any
    tokenizer: Any
    max_tokens: int

    @classmethod
    def load(cls, folder: Path, max_tokens: int, **config: Any) -> Recognizer:
        """Load a saved recognizer, or an encoder with a fresh head, from safetensors only.

        Further settings override the model's configuration.

        Raises:
            RaptError: the model is no encoder, or takes fewer tokens.
        """
        auto = AutoModelForTokenClassification
        model = encoders.load(folder, auto=auto, fresh=["classifier."], **config)
        most = most_tokens(model)
        if most is not None and max_tokens > most:
            raise RaptError(f"max_tokens: got {max_tokens}, expected at most {most}.")
        return cls(model, load_tokenizer(folder), max_tokens)

    @classmethod
    def fitted(cls, how: Ner, texts: Texts, tags: Texts, seed: int) -> Recognizer:
        """Fine-tune all weights of an encoder, by AdamW and the mean cross-entropy of words.

        Each word of the texts, clean ones of the attacker's own, has a BIO tag. Equal seeds give
        equal weights.

        Raises:
            RaptError: as `load`, the model is missing, or the loss is not a number.
        """
        folder = models.folder(how.model, how.sha256)
        torch.manual_seed(seed)
        names = dict(enumerate(sorted({tag for text in tags for tag in text} | {OUTSIDE})))
        numbers = {tag: number for number, tag in names.items()}
        own = cls.load(folder, how.max_tokens, id2label=names, label2id=numbers)
        examples = [
            part.inputs | {"labels": _labels(part, [numbers[tag] for tag in tags[part.text]])}
            for part in own._parts(texts)
        ]
        own._train(how, examples, torch.Generator().manual_seed(seed))
        return own

    def save(self, folder: Path) -> None:
        """Write model and tokenizer; equal weights give equal bytes."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @torch.inference_mode()
    def tags(self, texts: Texts) -> list[list[str]]:
        """Predict the most likely tag of each word."""
        found = [[OUTSIDE] * len(text) for text in texts]
        parts, pad = self._parts(texts), DataCollatorForTokenClassification(self.tokenizer)
        names = self.model.config.id2label
        self.model.eval()
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1):
            for rows in by_length([part.length for part in parts], BATCH):
                some = [parts[row] for row in rows]
                logits = self.model(**pad([part.inputs for part in some])).logits
                for part, best in zip(some, logits.argmax(-1).tolist(), strict=True):
                    for place, word in part.words.items():
                        found[part.text][word] = names[best[place]]
        return found

    def _parts(self, texts: Texts) -> list[Part]:
        encoded = self.tokenizer(
            [list(text) for text in texts],
            is_split_into_words=True,
            truncation=True,
            max_length=self.max_tokens,
            return_overflowing_tokens=True,
        )
        of = encoded.pop("overflow_to_sample_mapping")
        parts = [
            Part(text, {name: values[i] for name, values in encoded.items()}, {})
            for i, text in enumerate(of)
        ]
        seen: set[tuple[int, int]] = set()  # a word may continue in the next part
        for i, part in enumerate(parts):
            for place, word in enumerate(encoded.word_ids(i)):
                if word is not None and (part.text, word) not in seen:
                    seen.add((part.text, word))
                    part.words[place] = word
        return parts

    def _train(
        self, how: Ner, examples: Sequence[dict[str, list[int]]], order: torch.Generator
    ) -> None:
        lengths = [len(example["input_ids"]) for example in examples]
        pad = DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED)
        batches = (
            (rows, 1)
            for _ in range(how.epochs)
            for rows in shuffled(lengths, how.batch_size, order)
        )

        def loss(rows: list[int]) -> Tensor:
            return self.model(**pad([examples[row] for row in rows])).loss

        steps = how.epochs * -(-len(examples) // how.batch_size)
        encoders.fine_tune(how.type, self.model, batches, loss, how.learning_rate, steps, "step")


def _labels(part: Part, tags: Sequence[int]) -> list[int]:
    """Label each token by the tag of the word that it begins, other tokens by IGNORED."""
    return [
        tags[part.words[place]] if place in part.words else IGNORED for place in range(part.length)
    ]
