"""Inversion of single words by the embedding table or a language model; nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from rapt.attacks.base import (
    Inversion,
    Inverter,
    ModelSha256,
    Pairs,
    Public,
    Release,
    Vectors,
    by_text,
)
from rapt.param_types import Model

if TYPE_CHECKING:
    from rapt.attacks.language_model import WordPredictor
    from rapt.privacy.base import AnyPrivatizer
    from rapt.text.table import EmbeddingTable


class NearestNeighbour(Inversion):
    """White-box inversion: the word whose vector is nearest to what was released.

    Where words are released that is the word itself, and where vectors are, it is the word that the
    release has beside each.
    """

    source = "Qu et al., 2021; RAPT, figure 4"
    attacker_knowledge = "the embedding table"

    type: Literal["nearest-neighbour"]

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""
        return Inverter(lambda copies: [list(text) for text in copies[0].words])


def _mean(copies: Sequence[Release], table: EmbeddingTable) -> Vectors:
    """The mean over releases of the vector at each position, float32 (n, d)."""
    seen = [copy.seen(table) for copy in copies]
    mean = np.mean([vectors[places] for vectors, places in seen], axis=0)
    return np.asarray(mean, np.float32)


class Averaging(Inversion):
    """The word nearest to the mean of what several releases of the same texts have in its place.

    The mean of k vectors has 1 / √k of the noise. Where words are released their vectors stand for
    them; a word that all releases agree on is taken as it is. Each release costs η anew.
    """

    source = "ours: independent noise averages out"
    attacker_knowledge = "the embedding table"

    type: Literal["averaging"]
    copies: int = Field(2, ge=2, description="releases of the same texts that it has")

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""
        from rapt.privacy.neighbours import ExactSearch

        table = public.table
        search = ExactSearch(table.vectors)

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            mean = _mean(copies, table)
            flat = (chain(*copy.words) for copy in copies)
            guesses = (
                words[0] if len(set(words)) == 1 else table.words[row]
                for *words, row in zip(*flat, search(mean), strict=True)
            )
            return by_text(copies[0].words, guesses)

        return Inverter(invert)


class NearestRow(Inversion):
    """The word whose own vector before the noise, in own texts, is nearest to what was released.

    Of hidden states these are the states of own texts at that layer, of words the table's vectors.
    With several releases of the same texts it takes their mean.
    """

    source = "Song and Raghunathan, 2020; Shen et al., 2023 (SAP), embedding inversion"
    attacker_knowledge = "the user's layers or the embedding table; texts of its own"
    reads_states = reads_pairs = True

    type: Literal["nearest-row"]
    rows: PositiveInt = Field(20_000, description="words of its own that it compares with, at most")
    copies: PositiveInt = Field(1, description="releases of the same texts that it has")

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Compute the vectors of own words, without noise."""
        from rapt.privacy.neighbours import ExactSearch

        privatizer, table = public.privatizer, public.table
        every, known, rows = list(chain.from_iterable(own.words)), [], 0
        for words in own.words:
            known.append(_clear(privatizer, table, words))
            rows += len(words)
            if rows >= self.rows:
                break
        search = ExactSearch(np.concatenate(known).astype(np.float32))

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            mean = _mean(copies, table)
            guesses = (every[row] for row in search(mean))
            return by_text(copies[0].words, guesses)

        return Inverter(invert)


def _clear(
    privatizer: AnyPrivatizer[Any] | None, table: EmbeddingTable, words: Sequence[str]
) -> Vectors:
    """The vector of each word of a text before the noise, (n, d)."""
    if privatizer is None or not privatizer.releases.has_vectors:
        return table.embed(list(words))
    text = privatizer.text(words, ["X"] * len(words))
    (states,) = privatizer.originals([text])
    places = privatizer.places_of_words(text)
    return np.where((places >= 0)[:, None], states[places], 0).astype(np.float32)


class MaskedToken(Inversion):
    """The word that fits best among the released words around it, whichever was released.

    The model is a masked language model, or a decoder, which sees only the words before. Words
    whose category is not protected are guessed, too, although they stay as they are. A word may
    have another category in a text than in the table, and copying it is no merit of the attack.
    """

    source = "Yue et al., 2021 (arXiv 2106.01221)"
    attacker_knowledge = "a public language model"

    type: Literal["masked-token"]
    model: Model = Field(description="the language model, as in backbones")
    sha256: ModelSha256 = None

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned."""
        predictor = self.predictor(public)
        table, groups = public.table, public.groups

        def guess(text: Sequence[str]) -> list[str]:
            guesses: list[str] = []
            rows = table.rows([table.form(word) for word in text])
            for row, chances in zip(rows, predictor(text), strict=True):
                if row >= 0:  # a word becomes one of its own group
                    chances = np.where(groups == groups[row], chances, -1)
                guesses.append(table.words[chances.argmax()])
            return guesses

        return Inverter(lambda copies: [guess(text) for text in copies[0].words])

    def predictor(self, public: Public) -> WordPredictor:
        """Load the model as a predictor of the table's words."""
        from rapt import models
        from rapt.attacks.language_model import WordPredictor

        folder = models.folder(self.model, self.sha256)
        return WordPredictor(folder, public.table.words, public.table.frequency)
