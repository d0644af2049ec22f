"""How well words fit into a text, by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from rapt import models
from rapt.errors import RaptError
from rapt.tuning.backbones import load_tokenizer
from rapt.tuning.inputs import word_pieces

MASKED, CAUSAL = "ForMaskedLM", "ForCausalLM"
AUTO = {
    MASKED: AutoModelForMaskedLM,
    CAUSAL: AutoModelForCausalLM,
    "LMHeadModel": AutoModelForCausalLM,
}
# Words that are read together, as models have a longest text.
TOGETHER = 64


class WordPredictor:
    """P(w | the text's other words), of a masked language model; of a decoder, the words before.

    A model predicts tokens: words that begin with the same one share its probability as they share
    their frequency.
    """

    def __init__(self, folder: Path, words: Sequence[str], frequency: NDArray[np.float64]) -> None:
        """Load the model.

        Args:
            folder: of the model, with its head, in safetensors.
            words: V words to predict.
            frequency: of each, float64 (V,), 0 where unknown.

        Raises:
            RaptError: it is neither a masked language model nor a decoder with its head.
        """
        models.quiet()
        self._tokenizer = load_tokenizer(folder)
        self._masked, auto = _kind(folder)
        self._model = auto.from_pretrained(folder, use_safetensors=True, dtype=torch.float32).eval()
        unknown = [self._tokenizer.unk_token_id or 0]  # of a word that has no token at all
        pieces = word_pieces(self._tokenizer, words)
        self._first = np.array([(tokens or unknown)[0] for tokens in pieces])
        weights = np.maximum(frequency, np.min(frequency[frequency > 0], initial=1.0))
        self._share = weights / np.bincount(self._first, weights)[self._first]

    def __call__(self, text: Sequence[str]) -> NDArray[np.float64]:
        """The chance of every word at every place, float64 (n, V)."""
        predict = self._of_masks if self._masked else self._of_prefixes
        found = [np.empty((0, len(self._first)))]
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1), torch.inference_mode():
            for start in range(0, len(text), TOGETHER):
                logits = predict(list(text[start : start + TOGETHER]))
                found.append(logits.double().softmax(1).numpy()[:, self._first] * self._share)
        return np.concatenate(found)

    def _of_prefixes(self, text: list[str]) -> torch.Tensor:
        """The logits of the token after each word's prefix, (n, tokens)."""
        start = self._tokenizer.bos_token_id
        ids = [self._tokenizer.eos_token_id if start is None else start]
        places = []
        for tokens in word_pieces(self._tokenizer, text):
            places.append(len(ids) - 1)
            ids += tokens
        return self._model(torch.tensor([ids])).logits[0, places]

    def _of_masks(self, text: list[str]) -> torch.Tensor:
        """The logits of a mask in each word's place, (n, tokens)."""
        places = range(len(text))
        masked = [[*text[:at], self._tokenizer.mask_token, *text[at + 1 :]] for at in places]
        batch = self._tokenizer(masked, is_split_into_words=True, padding=True, return_tensors="pt")
        logits = self._model(**batch).logits
        return logits[places, [batch.word_ids(at).index(at) for at in places]]


def _kind(folder: Path) -> tuple[bool, Any]:
    """Whether a model predicts masks, and what loads it."""
    named = (AutoConfig.from_pretrained(folder).architectures or ["none"])[0]
    for ending, auto in AUTO.items():
        if named.endswith(ending):
            return ending == MASKED, auto
    raise RaptError(
        f"the language model: a {named} given, allowed: one with the head of a masked language "
        "model or of a decoder (…ForMaskedLM, …ForCausalLM)"
    )
