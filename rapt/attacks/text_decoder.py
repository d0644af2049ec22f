"""Inversion of one vector a text, by a decoder that writes the text from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from rapt.attacks import encoders
from rapt.attacks.base import Texts, Vectors
from rapt.tuning.batches import shuffled

END, OTHER = 0, 1  # what closes a text, and any word that the decoder does not know
WORDS = 5000  # that it knows, the most frequent ones
LONGEST = 64  # words of a text that it learns and writes at most
BATCH = 32  # texts at once
IGNORED = -100  # a place without a target, in Transformers


class TextDecoder(nn.Module):
    """Writes a text from its vector, word by word.

    A small GPT-2, trained from nothing, whose first input is the vector (Li et al., 2023).
    The attacker has public texts with their vectors, released as the victims' are.
    """

    _mean: Tensor
    _scale: Tensor

    def __init__(self, vectors: Vectors, texts: Texts, layers: int, width: int) -> None:
        """Take the words of the attacker's texts and the spread of their vectors, (n, d)."""
        super().__init__()
        counts = Counter(chain.from_iterable(texts)).most_common(WORDS)
        self._words = [word for word, _ in counts]
        self._numbers = {word: number for number, word in enumerate(self._words, OTHER + 1)}
        config = GPT2Config(
            vocab_size=len(self._words) + OTHER + 1,
            n_positions=LONGEST + 2,
            n_embd=width,
            n_layer=layers,
            n_head=width // 64,
            bos_token_id=END,
            eos_token_id=END,
            pad_token_id=END,
        )
        self.decoder: Any = GPT2LMHeadModel(config)
        self.read = nn.Linear(vectors.shape[1], width)
        self.register_buffer("_mean", torch.from_numpy(vectors.mean(axis=0)))
        self.register_buffer("_scale", torch.from_numpy(vectors.std(axis=0) + 1e-6))

    @classmethod
    def fitted(
        cls,
        vectors: Vectors,
        texts: Texts,
        seed: int,
        *,
        epochs: int = 10,
        learning_rate: float = 2e-3,
        layers: int = 2,
        width: int = 256,
    ) -> TextDecoder:
        """Train on n texts and their vectors, float32 (n, d); equal seeds give equal weights."""
        torch.manual_seed(seed)
        own = cls(vectors, texts, layers, width)
        order = torch.Generator().manual_seed(seed)
        lengths = [len(text) for text in texts]

        def batches() -> Iterator[tuple[list[int], int]]:
            for _ in range(epochs):
                for rows in shuffled(lengths, BATCH, order):
                    yield rows, len(rows)

        encoders.fine_tune(
            "text-decoder",
            own,
            batches(),
            lambda rows: own._loss(vectors[rows], [texts[row] for row in rows]),
            learning_rate,
            epochs * len(texts),
            "text",
        )
        return own.eval()

    @torch.inference_mode()
    def texts(self, vectors: Vectors, beams: int = 5) -> list[list[str]]:
        """Write the likeliest text of each vector, by beam search."""
        found: list[list[str]] = []
        with threadpool_limits(1):
            for at in range(0, len(vectors), BATCH):
                start = self._start(vectors[at : at + BATCH])
                written = self.decoder.generate(
                    inputs_embeds=start,
                    attention_mask=torch.ones(start.shape[:2], dtype=torch.int64),
                    max_new_tokens=LONGEST,
                    num_beams=beams,
                    do_sample=False,
                    suppress_tokens=[OTHER],
                )
                found += [
                    [self._words[number - OTHER - 1] for number in text if number > OTHER]
                    for text in written.tolist()
                ]
        return found

    def _start(self, vectors: Vectors) -> Tensor:
        scaled = (torch.from_numpy(np.asarray(vectors)) - self._mean) / self._scale
        return self.read(scaled)[:, None]

    def _loss(self, vectors: Vectors, texts: Texts) -> Tensor:
        """The mean cross-entropy of the texts' words and their ends."""
        rows = [[self._numbers.get(word, OTHER) for word in text[:LONGEST]] for text in texts]
        longest = max(map(len, rows))
        targets = torch.full((len(rows), longest + 1), IGNORED)
        for row, numbers in enumerate(rows):
            targets[row, : len(numbers) + 1] = torch.tensor([*numbers, END])
        words = self.decoder.transformer.wte(targets[:, :-1].clamp(min=END))
        logits = self.decoder(inputs_embeds=torch.cat((self._start(vectors), words), 1)).logits
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED
        )


def recovered(guesses: Texts, originals: Texts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the words of each text that its guess has too, in any order, and all its words.

    A word counts as often as both have it. Both counts are int64 (n,).
    """
    pairs = zip(guesses, originals, strict=True)
    found = [(Counter(guess) & Counter(text)).total() for guess, text in pairs]
    return np.array(found), np.array([len(text) for text in originals])
