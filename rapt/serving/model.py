"""An adapted model that answers; it is given privatized words alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from rapt import models
from rapt.kinds.classify import Classify
from rapt.serving.protocol import Text, check, contract_of, served_kind
from rapt.tuning import writing
from rapt.tuning.backbones import embedding_size
from rapt.tuning.config import Decoding
from rapt.tuning.denoising import load_denoised
from rapt.tuning.inputs import Reader, Split, numbered
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import load
from rapt.tuning.tfidf import TERMS, TfidfModel, segments
from rapt.utils.errors import RaptError

BATCH = 32


class Adapted:
    """The model that a training run wrote, on its backbone."""

    def __init__(self, folder: Path) -> None:
        """Load the adapter in `folder` (docs/data.md)."""
        self.contract = contract_of(folder)
        self.kind = served_kind(self.contract)
        self._words: TfidfModel | None = None
        try:
            if (folder / TERMS).is_file():
                self._words = TfidfModel.load(folder)
                return
            where = models.folder(self.contract.backbone, self.contract.backbone_sha256)
            apart = self.kind.is_language_model and models.config(where).is_encoder_decoder
            self._reader = Reader(
                load_tokenizer(where), self.contract.max_tokens, self.contract.chat, apart
            )
            self._model = load(
                folder,
                where,
                self.contract.quantize,
                self.contract.precision,
                make=lambda tuned: self.kind.model(tuned, self._reader, self.contract.precision),
                writes=self.kind.is_language_model,
                layer=self.contract.statement.layer,
            )
            self._denoised = load_denoised(folder) if self.contract.denoiser else None
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise RaptError(
                f"adapter {folder}: got {type(error).__name__} on loading it with "
                f"{self.contract.backbone}, expected files that fit. Copy the whole folder again."
            ) from error

    def answer(self, texts: list[Text]) -> Sequence[Any]:
        """Return the answer to each text, as the kind of task has it.

        Raises:
            RaptError: a text is not as the contract says, or too long for the backbone.
        """
        columns = self._columns(texts)
        if self._words:
            return self.probabilities(columns).tolist()
        vectors = None
        if self.contract.statement.vectors:
            vectors = _vectors(texts, embedding_size(self._model.backbone))
        return self.kind.rows(self._outputs(columns, vectors))

    def sampled(
        self,
        texts: list[Text],
        others: Sequence[Adapted],
        draw: Callable[[NDArray[np.float64]], int],
    ) -> list[str]:
        """Write a text for each text, with others that have the same contract; errors as `answer`.

        Args:
            texts: to answer.
            others: after this one.
            draw: chooses each token, as in `writing.sampled`.
        """
        split = self._split(self._columns(texts))
        most = (self.contract.decoding or Decoding()).max_new_tokens
        models = [one._model for one in (self, *others)]
        return writing.sampled(models, split, self._reader.tokenizer, most, draw)

    @property
    def vocabulary(self) -> int:
        """How many tokens may come next in what it writes.

        Raises:
            RaptError: it writes by a decoder apart, which `sampled` does not know.
        """
        if self._reader.apart:
            raise RaptError(
                f"the backbone: got {self._model.backbone.config.model_type}, whose decoder reads "
                "no prompt, expected a causal language model with private prediction."
            )
        head: Any = self._model.head
        return int(head.out_features)

    def share_weights(self, other: Adapted) -> None:
        """Keep the weights that equal another's, as a frozen backbone's, in memory only once."""
        if self._words:
            return
        known = dict(other._model.named_parameters())
        for name, weight in self._model.named_parameters():
            if name in known and torch.equal(weight, known[name]):
                weight.data = known[name].data

    def probabilities(self, columns: dict[str, list[Any]], vectors: Tensor | None = None) -> Tensor:
        """Return the probability of each class, float64 (n, classes), for n texts of a release.

        Args:
            columns: of the release (docs/data.md).
            vectors: where the model takes them, of the words of all texts, float32 (words, d).
        """
        if self._words:
            contract = self.contract
            pair = contract.segments == 2
            texts = columns["words"], columns["segment"], pair, contract.max_tokens
            return torch.from_numpy(np.exp(self._words.logits(segments(*texts))))
        assert isinstance(self.kind, Classify)
        return self.kind.probabilities(self._outputs(columns, vectors))

    def _columns(self, texts: list[Text]) -> dict[str, list[Any]]:
        """Return texts as the columns of a release, if they are as the contract says."""
        check(texts, self.contract)
        names = ("words", "segment", "plain", *(["space_after"] if self.kind.keeps_spacing else []))
        return {name: [getattr(text, name) for text in texts] for name in names}

    def _outputs(self, columns: dict[str, list[Any]], vectors: Tensor | None) -> Any:
        split = self._split(columns, vectors)
        decoding = self.contract.decoding or Decoding()
        return self.kind.outputs(self._model, split, self._reader, decoding, BATCH)

    def _split(self, columns: dict[str, list[Any]], vectors: Tensor | None = None) -> Split:
        if vectors is not None:
            columns = {**columns, "row": numbered(columns["words"])}
        if self._denoised:
            columns, vectors = self._denoised.named_in(columns), self._denoised.vectors
        if self.kind.target:  # unknown, and not looked at
            columns = {**columns, self.kind.target: [0] * len(columns["words"])}
        split = self.kind.tokenized(columns, self._reader, vectors)
        decoding = self.contract.decoding or Decoding()
        for need in self.kind.needs(
            self._model.backbone, {"train": split, "test": split}, decoding
        ):
            if need.got > need.room:
                raise RaptError(
                    f"texts: got {need.got} {need.what} in one text, expected at most {need.room}."
                )
        return split


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
