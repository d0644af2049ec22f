"""An adapted model that answers with probabilities; it is given privatized words alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from rapt import models
from rapt.serving.protocol import Text, check, contract_of
from rapt.tuning import writing
from rapt.tuning.backbones import embedding_size, load_tokenizer, most_tokens, translates
from rapt.tuning.denoising import load_denoised
from rapt.tuning.inputs import letter_tokens, numbered, tokenized
from rapt.tuning.model import Writer, load
from rapt.tuning.scoring import logits
from rapt.tuning.tfidf import TERMS, TfidfModel, segments
from rapt.utils.errors import RaptError

BATCH = 32


class Adapted:
    """The model that a training run wrote, on its backbone."""

    def __init__(self, folder: Path) -> None:
        """Load the adapter in `folder` (docs/data.md)."""
        self.contract = contract_of(folder)
        self._words: TfidfModel | None = None
        try:
            if (folder / TERMS).is_file():
                self._words = TfidfModel.load(folder)
                return
            where = models.folder(self.contract.backbone, self.contract.backbone_sha256)
            self._tokenizer = load_tokenizer(where)
            letters = letter_tokens(self._tokenizer, self.contract.letters, chat=self.contract.chat)
            how = self.contract.quantize, self.contract.precision, letters
            self._model = load(folder, where, *how, writes=self.contract.kind == "generate")
            self._denoised = load_denoised(folder) if self.contract.denoiser else None
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise RaptError(
                f"adapter {folder}: got {type(error).__name__} on loading it with "
                f"{self.contract.backbone}, expected files that fit. Copy the whole folder again."
            ) from error

    def probabilities(self, texts: list[Text]) -> list[list[float]]:
        """For each text the probability of each class of the contract.

        Raises:
            RaptError: a text is not as the contract says, or too long for the backbone.
        """
        check(texts, self.contract)
        if self.contract.kind == "generate":
            raise RaptError(
                "texts: got a request for probabilities, expected one for texts, as the adapter "
                "writes. Ask /write."
            )
        columns: dict[str, list[Any]] = {
            "words": [text.words for text in texts],
            "segment": [text.segment for text in texts],
            "plain": [text.plain for text in texts],
            "label": [0] * len(texts),  # unknown, and not looked at
        }
        vectors = None
        if self.contract.statement.vectors:
            vectors = _vectors(texts, embedding_size(self._model.backbone))
        return self.answers(columns, vectors).tolist()

    def write(self, texts: list[Text]) -> list[str]:
        """The text that the model writes for each source.

        Raises:
            RaptError: a source is not as the contract says, or too long for the backbone.
        """
        check(texts, self.contract)
        if (decoding := self.contract.decoding) is None or self.contract.letters:
            raise RaptError(
                "texts: got a request for texts, expected one for probabilities, as the adapter "
                "predicts classes. Ask /predict."
            )
        columns = {
            name: [getattr(text, name) for text in texts]
            for name in ("words", "segment", "space_after", "plain")
        }
        how = {"apart": translates(self._model.backbone), "chat": self.contract.chat}
        split = writing.tokenized(columns, self._tokenizer, self.contract.max_tokens, **how)
        new = 0 if how["apart"] else decoding.max_new_tokens  # else the decoder's own
        self._check_room(max(split.lengths) + new)
        assert isinstance(self._model, Writer)
        return writing.write(self._model, split, self._tokenizer, decoding, BATCH)[0]

    def _check_room(self, longest: int) -> None:
        room = most_tokens(self._model.backbone)
        if room is not None and longest > room:
            raise RaptError(f"texts: got {longest} tokens in one, expected at most {room}.")

    def answers(self, columns: dict[str, list[Any]], vectors: Tensor | None) -> Tensor:
        """The probability of each class, float64 (n, classes), for n texts of a release.

        Args:
            columns: of the release (docs/data.md).
            vectors: where the model takes them, of the words of all texts, float32 (words, d).
        """
        if self._words:
            contract = self.contract
            pair = contract.segments == 2
            texts = columns["words"], columns["segment"], pair, contract.max_tokens
            return torch.from_numpy(np.exp(self._words.logits(segments(*texts))))
        if vectors is not None:
            columns = {**columns, "row": numbered(columns["words"])}
        if self._denoised:
            columns, vectors = self._denoised.named_in(columns), self._denoised.vectors
        most, letters = self.contract.max_tokens, self.contract.letters
        chat = self.contract.chat
        split = tokenized(columns, self._tokenizer, most, vectors, letters, chat=chat)
        self._check_room(max(split.lengths))
        scores = logits(self._model, split, self._tokenizer.pad_token_id, BATCH)
        return scores[:, : len(self.contract.labels)].double().softmax(1)


def _vectors(texts: list[Text], dimension: int) -> Tensor:
    """The vectors of the words of all texts, float32 (words, d), if there is one for each."""
    for number, text in enumerate(texts):
        got, expected = len(text.vectors or b""), 4 * dimension * len(text.words)
        if got != expected:
            raise RaptError(
                f"texts.{number}.vectors: got {got} bytes, expected {expected}, {dimension} "
                "float32 for each word."
            )
    numbers = np.frombuffer(b"".join(text.vectors or b"" for text in texts), "<f4")
    if not np.isfinite(numbers).all():
        raise RaptError(
            "texts: got vectors with a number that is not finite, expected finite ones."
        )
    return torch.from_numpy(numbers.astype(np.float32)).reshape(-1, dimension)
