"""Black-box inversion by regression."""

from __future__ import annotations

from typing import Literal

from rapt.attacks.base import Inverter, Public, Vectors
from rapt.attacks.black_box import BlackBox, each_word
from rapt.attacks.perceptron import Hidden


class Autoencoder(BlackBox):
    """Black-box inversion: the vector of the word behind a released one, by regression.

    The guess is the word nearest to it; `squared_error` is how far from the true word's vector.
    """

    type: Literal["autoencoder"]
    hidden: Hidden = 512

    def learn(self, public: Public, words: list[str], seen: Vectors, seed: int) -> Inverter:
        """Learn the words' vectors."""
        from rapt.privacy.neighbours import ExactSearch

        table = public.table
        decode = self.regressor(seen, table.embed(words), seed)
        search = ExactSearch(table.vectors)

        def nearest(vectors: Vectors) -> list[str]:
            return [table.words[row] for row in search(decode(vectors))]

        return Inverter(each_word(table, nearest), decode)
