"""Split-and-Denoise and its control: `python -m evidence.split_and_denoise TRAIN TEST PUBLIC`.

TRAIN and TEST are SST-2's parquet files (`sentence`, `label`), PUBLIC HappyDB's (`moment`); rapt
fetches neither. evidence/split-and-denoise.md says what follows.

The user sends noisy token embeddings (Mai et al., 2024, arXiv 2310.09130). The server answers with
the model's output for them. A denoiser on the user's machine reads that answer, and beside it the
clean embeddings and the noise. In the control it reads zeros in place of the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from evidence.one_vector import Data, accuracy, read
from rapt import models
from rapt.paths import MINILM
from rapt.privacy.mechanisms import VectorMechanism, mechanism
from rapt.privacy.streams import stream
from rapt.utils import files
from rapt.utils.progress import bar

OUT = Path("evidence/split_and_denoise.json")
ROWS, PUBLIC, TOKENS, BATCH = 2500, 2000, 48, 16
CLIP = 1.7  # above the length of each of MiniLM's token embeddings
EPOCHS, RATE = 5, 5e-4
LAYERS, HEADS, WIDTH = 2, 8, 768  # of the denoiser
# As the paper draws the noise and as its code does, and the η of each.
NOISE = {"token-representation": (100, 400, 1000), "snd-as-coded": (100,)}
ANSWERS = ("server", "zeros")


class Texts(NamedTuple):
    """Token embeddings, padded, (n, t, d); where tokens stand, (n, t); the clean output, (n, d)."""

    vectors: Tensor
    mask: Tensor
    clean: Tensor


class Sent(NamedTuple):
    """The noise of what was sent, (n, t, d), and the server's answer, (n, d)."""

    noise: Tensor
    answer: Tensor


class Server:
    """MiniLM: its input embeddings are public, the rest reads vectors."""

    def __init__(self) -> None:
        folder = models.folder(MINILM, None)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()

    def texts(self, words: list[list[str]]) -> Texts:
        """Embed texts, and read them without noise."""
        how = {"is_split_into_words": True, "truncation": True, "max_length": TOKENS}
        read = self.tokenizer(words, padding="max_length", return_tensors="pt", **how)
        with torch.inference_mode():
            vectors = self.model.get_input_embeddings()(read["input_ids"])
        return Texts(vectors, read["attention_mask"], self(vectors, read["attention_mask"]))

    def __call__(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return the mean of the model's states, (n, d)."""
        with torch.inference_mode():
            return torch.cat([self._mean(*part) for part in _parts(vectors, mask)])

    def _mean(self, vectors: Tensor, mask: Tensor) -> Tensor:
        longest = int(mask.sum(1).max())
        vectors, mask = vectors[:, :longest], mask[:, :longest]
        states = self.model(inputs_embeds=vectors, attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Denoiser(nn.Module):
    """Reads an answer, a text's embeddings and their noise; writes the output without noise."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            dimension, HEADS, WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, dimension))
        self.kinds = nn.Parameter(0.02 * torch.randn(3, dimension))
        self.out = nn.Linear(dimension, dimension)

    def forward(self, answer: Tensor, vectors: Tensor, noise: Tensor, mask: Tensor) -> Tensor:
        """Return the output, (n, d)."""
        longest = int(mask.sum(1).max())
        places, masked = self.places[:longest], mask[:, :longest] == 0
        parts = (
            answer[:, None] + self.kinds[0],
            vectors[:, :longest] + places + self.kinds[1],
            noise[:, :longest] + places + self.kinds[2],
        )
        hidden = torch.cat([torch.zeros_like(masked[:, :1]), masked, masked], 1)
        found: Tensor = self.out(
            self.layers(torch.cat(parts, 1), src_key_padding_mask=hidden)[:, 0]
        )
        return found


def sent(server: Server, texts: Texts, made: VectorMechanism, eta: float, *names: object) -> Sent:
    """Send texts with noise, clipped after it as the paper does, and return what comes back."""
    n, t, d = texts.vectors.shape
    draws = made.draw(stream(0, made.name, str(eta), *map(str, names)), n * t, d)
    noisy = texts.vectors + torch.tensor(draws / eta, dtype=torch.float32).reshape(n, t, d)
    noisy *= (CLIP / noisy.norm(dim=2, keepdim=True)).clamp(max=1)
    return Sent(noisy - texts.vectors, server(noisy, texts.mask))


def fitted(texts: Texts, every: list[Sent], answer: str) -> Denoiser:
    """Train a denoiser on public texts, each epoch with other noise."""
    torch.manual_seed(0)
    model = Denoiser(texts.vectors.shape[2])
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    for epoch, of_epoch in enumerate(every):
        order = stream(0, "order", str(epoch)).permutation(len(texts.mask))
        for rows in torch.tensor(order).split(BATCH):
            loss = nn.functional.mse_loss(
                model(*inputs(texts, of_epoch, answer, rows)), texts.clean[rows]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def inputs(texts: Texts, of: Sent, answer: str, rows: Tensor) -> tuple[Tensor, ...]:
    """Return what the denoiser reads of some texts."""
    told = of.answer[rows] if answer == "server" else torch.zeros_like(of.answer[rows])
    return told, texts.vectors[rows], of.noise[rows], texts.mask[rows]


def denoised(model: Denoiser, texts: Texts, of: Sent, answer: str) -> Tensor:
    """Return the outputs that a denoiser writes, (n, d)."""
    with torch.inference_mode():
        rows = torch.arange(len(texts.mask)).split(BATCH)
        return torch.cat([model(*inputs(texts, of, answer, some)) for some in rows])


def _parts(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(tensor.split(BATCH) for tensor in tensors), strict=True)


def main(train: str, test: str, public: str) -> None:
    """Write the figures."""
    torch.set_num_threads(1)
    server = Server()
    moments = files.read_parquet(public)["moment"].to_pylist()
    rows = stream(0, "public").permutation(len(moments))[:PUBLIC]
    known = server.texts([moments[row].split() for row in rows])
    (words, labels), (asked, right) = read(train, ROWS), read(test)
    own, test_texts = server.texts(words), server.texts(asked)

    def figures(train: Tensor, test: Tensor) -> dict[str, float]:
        data = Data(train.double().numpy(), labels, test.double().numpy(), right)
        alike = torch.cosine_similarity(test, test_texts.clean)
        return {"accuracy": accuracy(data), "cosine": float(alike.mean())}

    found: dict[str, dict[str, dict[str, float]]] = {}
    every = [(name, eta) for name, etas in NOISE.items() for eta in etas]
    for name, eta in bar(every, "noise", len(every)):
        made = mechanism(name)
        assert isinstance(made, VectorMechanism)
        epochs = [sent(server, known, made, eta, "public", epoch) for epoch in range(EPOCHS)]
        of_train = sent(server, own, made, eta, "train")
        of_test = sent(server, test_texts, made, eta, "test")
        cell = {"answer": figures(of_train.answer, of_test.answer)}
        for answer in ANSWERS:
            model = fitted(known, epochs, answer)
            cell[answer] = figures(
                denoised(model, own, of_train, answer), denoised(model, test_texts, of_test, answer)
            )
        found[f"{name} {eta}"] = cell
    content = {
        "rows": {"train": len(labels), "test": len(right), "public": len(rows)},
        "majority": float(max(np.bincount(right)) / len(right)),
        "clean": figures(own.clean, test_texts.clean),
        "cells": found,
    }
    files.write_json(OUT, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
