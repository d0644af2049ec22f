"""White-box inversion of several releases of a text, by their mean."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np
from pydantic import Field

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release, by_text


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
            seen = [copy.seen(table) for copy in copies]
            mean = np.mean([vectors[places] for vectors, places in seen], axis=0)
            flat = (chain(*copy.words) for copy in copies)
            guesses = (
                words[0] if len(set(words)) == 1 else table.words[row]
                for *words, row in zip(*flat, search(mean.astype(np.float32)), strict=True)
            )
            return by_text(copies[0].words, guesses)

        return Inverter(invert)
