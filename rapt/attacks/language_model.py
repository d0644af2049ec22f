"""Word probabilities in context, by a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from rapt import models
from rapt.tuning.inputs import word_pieces
from rapt.tuning.loading import load_tokenizer
from rapt.utils import files
from rapt.utils.errors import RaptError

# What loads a model, by what the name of its architecture ends in.
AUTO: dict[str, Any] = {
    "ForMaskedLM": AutoModelForMaskedLM,
    "ForCausalLM": AutoModelForCausalLM,
    "LMHeadModel": AutoModelForCausalLM,
}
# Tokens of context on either side of a word, at most; fewer if the model takes fewer.
AROUND = 64
# Logits that a model may return at once, a quarter of a gigabyte.
ANSWER = 1 << 26


class _Reading(NamedTuple):
    """A batch of inputs, and the row and position of each prediction to read off."""

    inputs: dict[str, torch.Tensor]
    rows: Sequence[int]
    places: Sequence[int]


class WordPredictor:
    """P(w | the text's other words) by a masked language model; by a decoder, P(w | words before).

    A model predicts tokens, so words with the same first token share its probability in proportion
    to their frequency.
    """

    def __init__(self, folder: Path, words: Sequence[str], frequency: NDArray[np.float64]) -> None:
        """Load the model.

        Args:
            folder: folder of the model, with its head, in safetensors.
            words: V words to predict.
            frequency: the frequency of each word, float64 (V,); 0: unknown.

        Raises:
            RaptError: the model is neither a masked language model nor a decoder with its head.
        """
        self._tokenizer = load_tokenizer(folder)
        auto = _loader(folder)
        self._masked = auto is AutoModelForMaskedLM
        self._model = models.load(auto, folder, dtype=torch.float32).eval()
        unknown = [self._tokenizer.unk_token_id or 0]  # for a word without any token
        pieces = word_pieces(self._tokenizer, words)
        self._first = np.array([(tokens or unknown)[0] for tokens in pieces])
        weights = np.maximum(frequency, np.min(frequency[frequency > 0], initial=1.0))
        self._share = weights / np.bincount(self._first, weights)[self._first]
        encoded = self._tokenizer(["a"], is_split_into_words=True)
        special = [word is None for word in encoded.word_ids()]
        self._begin = encoded["input_ids"][: special.index(False)]
        self._end = encoded["input_ids"][len(special) - special[::-1].index(False) :]
        # Two of RoBERTa's positions belong to no token.
        longest = (getattr(self._model.config, "max_position_embeddings", None) or 1 << 20) - 2
        self._around = min(AROUND, (longest - len(self._begin) - len(self._end) - 1) // 2)

    def __call__(self, text: Sequence[str]) -> Iterator[NDArray[np.float64]]:
        """Yield the probability of each of the V words, float64 (V,), for each position in turn."""
        pieces = word_pieces(self._tokenizer, text)
        tokens = list(chain(*pieces))
        spans = list(pairwise(accumulate(map(len, pieces), initial=0)))
        for reading in (self._of_masks if self._masked else self._of_prefixes)(tokens, spans):
            yield from self._chances(reading)

    def _chances(self, reading: _Reading) -> NDArray[np.float64]:
        """Compute the probability of each word at a reading's positions, (places, V)."""
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1), torch.inference_mode():
            logits = self._model(**reading.inputs).logits[reading.rows, reading.places]
            return logits.double().softmax(1).numpy()[:, self._first] * self._share

    def _of_prefixes(self, tokens: list[int], spans: list[tuple[int, int]]) -> Iterator[_Reading]:
        """Yield a reading for all words that begin within a window of `_around` tokens."""
        start = self._tokenizer.bos_token_id
        begin = self._tokenizer.eos_token_id if start is None else start
        for first in range(0, len(tokens) + 1, self._around):
            low, end = max(0, first - self._around), first + self._around
            places = [at - low for at, _ in spans if first <= at < end]
            if places:
                ids = torch.tensor([[begin, *tokens[low : end - 1]]])
                yield _Reading({"input_ids": ids}, [0] * len(places), places)

    def _of_masks(self, tokens: list[int], spans: list[tuple[int, int]]) -> Iterator[_Reading]:
        """Yield readings of several words, each word masked within its context."""
        longest = len(self._begin) + 2 * self._around + 1 + len(self._end)
        together = max(1, ANSWER // (longest * self._model.config.vocab_size))
        for start in range(0, len(spans), together):
            some = spans[start : start + together]
            masked = [
                [
                    *self._begin,
                    *tokens[max(0, at - self._around) : at],
                    self._tokenizer.mask_token_id,
                    *tokens[after : after + self._around],
                    *self._end,
                ]
                for at, after in some
            ]
            batch = self._tokenizer.pad(
                {"input_ids": masked}, padding_side="right", return_tensors="pt"
            )
            places = [len(self._begin) + min(at, self._around) for at, _ in some]
            yield _Reading(dict(batch), range(len(some)), places)


def _loader(folder: Path) -> Any:
    """Return the class that loads a model."""
    named = (files.read_json(folder / "config.json").get("architectures") or ["none"])[0]
    for ending, auto in AUTO.items():
        if named.endswith(ending):
            return auto
    raise RaptError(
        f"the language model: got a {named}, expected one with the head of a masked language "
        "model or of a decoder (…ForMaskedLM, …ForCausalLM)."
    )
