"""Public encoders of whole texts: from a text's words to one vector, before any noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rapt import models
from rapt.privacy.mechanisms.base import (
    Space,
    Texts,
    TextVectorMechanism,
    Vectors,
    check,
    means,
    parameter,
)
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from torch import Tensor

    from rapt.text.table import EmbeddingTable

Known = dict[tuple[str, ...], NDArray[Any]]  # what a model made of texts
Reading = Callable[[Texts], Iterable[NDArray[Any]]]
TABLE_MEAN = "table"  # the encoder that is made of the table alone
TEXTS, WORDS_OF_TEXT = 400, 20  # public texts, of the table's words
BATCH = 32  # texts that a model reads at once
KEPT = 1 << 15  # texts whose vectors a model keeps: 48 MiB of 384 numbers each
KEPT_STATES = 1 << 11  # texts whose states: about 100 MiB of 32 tokens each


def public_texts(table: EmbeddingTable) -> list[list[str]]:
    """Draw texts of the table's words, by public frequency and with a fixed seed."""
    rng, total = np.random.default_rng(0), table.frequency.sum()
    rows = rng.choice(
        len(table.words), (TEXTS, WORDS_OF_TEXT), p=table.frequency / total if total else None
    )
    return [[table.words[row] for row in text] for text in rows]


class ModelEncoder:
    """A model's hidden states of a text, or their mean over all its positions; nothing learns."""

    def __init__(self, name: str, layers: int | None = None, cut: bool = False) -> None:
        """Load a model.

        Args:
            name: as in backbones.
            layers: the first ones alone; None: all.
            cut: whether of a longer text than the model reads the first tokens are read.

        Raises:
            RaptError: there is no such model, or it is no encoder, or has no such layer.
        """
        import torch
        from transformers import AutoModel
        from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

        folder = models.folder(name, None)
        config = models.config(folder)
        is_encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
        if not (is_encoder and getattr(config, "max_position_embeddings", None)):
            raise RaptError(
                f"encoder: got {name!r} of type {config.model_type}, expected an encoder such as "
                "BERT."
            )
        self._tokenizer = models.tokenizer(folder, add_prefix_space=True)
        self._model: Any = models.load(AutoModel, folder, dtype=torch.float32).eval()
        if layers is not None:
            first_layers(self._model, layers)
        places: Any = getattr(self._model.embeddings, "position_embeddings", None)
        before = getattr(places, "padding_idx", None)  # RoBERTa's first position is beyond it
        room = config.max_position_embeddings - (0 if before is None else before + 1)
        self._longest = min(room, self._tokenizer.model_max_length)
        self._cut = self._longest if cut else None
        self._means: Known = {}
        self._states: Known = {}

    def __call__(self, texts: Texts) -> Vectors:
        """Return the vector of each text, float32 (n, h).

        Raises:
            RaptError: a text has more tokens than the model reads.
        """
        return np.array(self._each(texts, self._means, KEPT, self._read))

    def states(self, texts: Texts) -> list[NDArray[np.float32]]:
        """Return the states of each text's tokens, special ones included, float32 (n, h).

        Raises:
            RaptError: a text has more tokens than the model reads.
        """
        return self._each(texts, self._states, KEPT_STATES, self._read_states)

    def _each(self, texts: Texts, known: Known, kept: int, read: Reading) -> list[NDArray[Any]]:
        """Return what is known of each text, and read what is not."""
        every = [tuple(text) for text in texts]
        new = [text for text in dict.fromkeys(every) if text not in known]
        if len(known) + len(new) > kept:
            known.clear()
            new = list(dict.fromkeys(every))
        known.update(zip(new, read(new), strict=True))
        return [known[text] for text in every]

    def _read(self, texts: Texts) -> Vectors:
        means = np.zeros((len(texts), self._model.config.hidden_size), np.float32)
        for rows, hidden, attention in self._batches(texts):
            weights = attention[:, None].float() / attention.sum(1)[:, None, None]
            means[rows] = (weights @ hidden)[:, 0].numpy()
        return means

    def _read_states(self, texts: Texts) -> list[NDArray[np.float32]]:
        found = {}
        for rows, hidden, attention in self._batches(texts):
            for row, own, count in zip(rows, hidden, attention.sum(1).tolist(), strict=True):
                found[int(row)] = own[:count].numpy().copy()
        return [found[row] for row in range(len(texts))]

    def words_of_tokens(self, text: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of the word of each of the text's tokens, (n,); -1 of special ones."""
        read = self._tokenizer(list(text), is_split_into_words=True, truncation=False)
        return np.array([-1 if word is None else word for word in read.word_ids()], np.int64)

    def _batches(self, texts: Texts) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
        """Yield places of texts, their hidden states (b, n, h), and where they have tokens."""
        import torch

        how: Any = {"is_split_into_words": True, "truncation": bool(self._cut)}
        tokens = [
            self._tokenizer(list(text), max_length=self._cut, **how)["input_ids"] for text in texts
        ]
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        if (lengths > self._longest).any():
            raise RaptError(
                f"encoder: got {(lengths > self._longest).sum()} texts of up to {lengths.max()} "
                f"tokens, expected at most {self._longest}. Leave longer ones out by max_words of "
                "the task."
            )
        order = np.argsort(lengths, kind="stable")
        # One thread, so that the vectors do not depend on how many cores there are.
        with threadpool_limits(1), torch.inference_mode():
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                ids = torch.zeros(len(rows), int(lengths[rows].max()), dtype=torch.long)
                attention = torch.zeros_like(ids)
                for place, row in enumerate(rows):
                    ids[place, : lengths[row]] = torch.tensor(tokens[row])
                    attention[place, : lengths[row]] = 1
                hidden = self._model(input_ids=ids, attention_mask=attention).last_hidden_state
                yield rows, hidden, attention


def first_layers(model: Any, count: int) -> None:
    """Keep the first layers of an encoder alone.

    Raises:
        RaptError: it has no list of layers as BERT has, or no more than these.
    """
    layers = getattr(getattr(model, "encoder", None), "layer", None)
    if layers is None:
        raise RaptError(
            f"encoder: got one of type {model.config.model_type}, expected one whose layers are "
            "BERT's."
        )
    if not 0 < count < len(layers):
        raise RaptError(
            f"layer: got {count}, expected at most {len(layers) - 1}, as the provider's part needs "
            "one."
        )
    model.encoder.layer = layers[:count]


@lru_cache(2)
def model_encoder(name: str, layers: int | None = None, *, cut: bool = False) -> ModelEncoder:
    """Return the encoder of a model, or of its first layers, loaded once; see `ModelEncoder`."""
    return ModelEncoder(name, layers, cut)


@dataclass(frozen=True)
class EncodedText(TextVectorMechanism):
    """A mechanism of text vectors with a choice of a public, frozen encoder."""

    encoder: str = parameter(
        TABLE_MEAN,
        "what makes a text's vector: `table`, the mean of its words' vectors; or a model as in "
        "backbones, the mean of its last hidden states",
    )

    @property
    def is_from_table(self) -> bool:
        """Whether the encoder is made of the table alone."""
        return self.encoder == TABLE_MEAN and type(self).encode is EncodedText.encode

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return the vector of each text before the noise, (n, k)."""
        return self.shaped(self.read(texts, table), table)

    def read(self, texts: Texts, table: EmbeddingTable) -> NDArray[np.float64]:
        """Return what the encoder makes of each text, float64 (n, h)."""
        if self.encoder == TABLE_MEAN or not texts:
            return means(texts, table)
        return np.asarray(model_encoder(self.encoder)(texts), np.float64)

    def shaped(self, vectors: NDArray[np.float64], table: EmbeddingTable) -> NDArray[np.float64]:
        """Return what the mechanism adds noise to, (n, k), from what the encoder made."""
        return vectors


class Frame(NamedTuple):
    """Public coordinates of encoded texts.

    Attributes:
        centre: float64 (h,), the mean of public texts.
        axes: float64 (h, k), their principal axes; None: all coordinates as they are.
    """

    centre: NDArray[np.float64]
    axes: NDArray[np.float64] | None


@lru_cache(8)
def frame(mechanism: FramedText, table: EmbeddingTable) -> Frame:
    """Return the frame of a mechanism's encoder over a table, fitted on `public_texts` alone."""
    vectors = mechanism.read(public_texts(table), table)
    centre = vectors.mean(axis=0)
    if not 0 < mechanism.dimensions < vectors.shape[1]:
        return Frame(centre, None)
    _, _, axes = np.linalg.svd(vectors - centre, full_matrices=False)
    return Frame(centre, axes[: mechanism.dimensions].T)


@dataclass(frozen=True)
class FramedText(EncodedText):
    """An encoded text minus a public mean, in public coordinates, brought to one size.

    The mean and the coordinates are fitted on random texts of the table's words. They are as public
    as the table.
    """

    dimensions: int = parameter(
        0, "principal coordinates of public texts that are kept, at most; 0: all coordinates"
    )

    def __post_init__(self) -> None:
        check("dimensions", self.dimensions, "a whole number of at least 0", self.dimensions >= 0)

    def shaped(self, vectors: NDArray[np.float64], table: EmbeddingTable) -> NDArray[np.float64]:
        """See EncodedText."""
        centre, axes = frame(self, table)
        centred = vectors - centre
        return self.normalized(centred if axes is None else centred @ axes)

    def candidates(self, table: EmbeddingTable) -> Space | None:
        """See TextVectorMechanism: the mean is no longer one of words."""
        return None

    @abstractmethod
    def normalized(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring vectors (n, k) to one size."""
