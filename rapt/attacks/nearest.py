"""White-box inversion by the nearest neighbour."""

from __future__ import annotations

from typing import Literal

from rapt.attacks.base import Inversion, Inverter, Pairs, Public


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
