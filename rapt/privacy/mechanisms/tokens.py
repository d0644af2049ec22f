"""T2T on the tokens of a model's vocabulary, which are pieces of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.mechanisms.base import Rewriter, RewritingMechanism, Space, Texts, Vectors
from rapt.privacy.mechanisms.claim import REAL, TABLE, Metric, TextClaim
from rapt.privacy.mechanisms.hidden_states import LENGTH, flat, summed
from rapt.privacy.mechanisms.noise import NOISE, noisy, spherical_noise

if TYPE_CHECKING:
    from rapt.privacy.neighbours import ExactSearch
    from rapt.text.table import EmbeddingTable


class Lexicon(NamedTuple):
    """The units of a table: its model's tokens, or where the table has none its words.

    Attributes:
        space: the V candidates.
        search: finds the nearest of them.
        embed: from the words of a text to the vectors of its units, (n, d).
        spell: from candidates, as rows, to words.
    """

    space: Space
    search: ExactSearch
    embed: Callable[[Sequence[str]], Vectors]
    spell: Callable[[NDArray[np.int64]], list[str]]


@lru_cache(2)
def lexicon(table: EmbeddingTable) -> Lexicon:
    """Return the units of a table, made once."""
    tokens = table.tokens
    if not len(tokens):
        space = Space(table.vectors, table.frequency)
        return Lexicon(
            space, space.search(), table.embed, lambda rows: [table.words[row] for row in rows]
        )
    space = Space(np.asarray(table.pieces[tokens]), np.zeros(len(tokens)))
    return Lexicon(
        space,
        space.search(),
        lambda words: np.asarray(table.pieces[table.tokenize(words)]),
        lambda rows: table.spell(tokens[rows]),
    )


@dataclass(frozen=True)
class TokenT2T(RewritingMechanism):
    """T2T on the tokens of the table's model, pieces of words included (the units of Qu et al.).

    The words that the released tokens make are read as a new text: they need not be as many.
    """

    name = "t2t-tokens"
    source = "Qu et al., 2021, Privacy-Adaptive BERT, arXiv 2104.07504, section 3.3"
    claim = TextClaim(
        Metric("sum over tokens of the Euclidean distances of their embeddings", summed),
        (*NOISE, "composition"),
        domain="texts w, w' of as many tokens",
        conditions=(TABLE, LENGTH, REAL),
    )

    def width(self, of_table: int) -> int:
        """The dimension of a token's vector, given that of the table."""
        return of_table

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return the vectors of as many tokens of each text as the shortest has, flat: (n, k)."""
        return flat([self.units(text, table) for text in texts])

    def units(self, words: Sequence[str], table: EmbeddingTable) -> Vectors:
        """Return the vectors of a text's tokens, (n, d)."""
        return lexicon(table).embed(list(words))

    def candidates(self, table: EmbeddingTable) -> Space:
        """Return the tokens."""
        return lexicon(table).space

    def writer(self, table: EmbeddingTable, eta: float) -> Rewriter:
        """Return what replaces each token by the one nearest to its noisy vector."""
        units = lexicon(table)

        def write(words: Sequence[str], rng: np.random.Generator) -> list[str]:
            vectors = units.embed(words)
            if not len(vectors):
                return []
            noise = spherical_noise(rng, *vectors.shape)
            return units.spell(units.search(noisy(vectors, noise, eta)))

        return write
