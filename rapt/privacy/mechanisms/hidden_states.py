"""Split models: the user runs the first layers, frozen and public, and releases their states.

One changed word moves every state of a text, as each layer reads all of it. So a guarantee is of
the text: never so much a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import inf, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rapt import models
from rapt.paths import MINILM
from rapt.privacy.mechanisms.base import (
    Distances,
    Space,
    Texts,
    TextVectorMechanism,
    Vectors,
    check,
    parameter,
)
from rapt.privacy.mechanisms.claim import ANY_TEXTS, GRID, REAL, TABLE, Metric, TextClaim
from rapt.privacy.mechanisms.encoders import KEPT, model_encoder
from rapt.privacy.mechanisms.gaussian import GaussianNoise, gaussian_delta
from rapt.privacy.mechanisms.sphere import ONCE
from rapt.privacy.mechanisms.vectors import OnGrid, rounded
from rapt.privacy.released import HiddenStates

if TYPE_CHECKING:
    from rapt.privacy.neighbours.search import ExactSearch
    from rapt.text.table import EmbeddingTable

FROZEN = (
    "The first layers are public and frozen: they were not tuned on private texts, neither before "
    "the release nor through it."
)
LENGTH = "Both texts have as many tokens: their number is released."
LEAST_FREQUENT = 1e-9  # a frequency for words that have none
IN_CLEAR = 1e6  # of the score of a state that was sent in clear


def summed(made: HiddenStateMechanism, space: Space, one: Vectors, other: Vectors) -> Distances:
    """The sum over positions of the Euclidean distances of states; texts are flat, (n, k)."""
    width = made.width(space.vectors.shape[1])
    gaps = (np.asarray(one, np.float64) - other).reshape(len(one), -1, width)
    return np.asarray(np.linalg.norm(gaps, axis=2).sum(axis=1))


STATES = Metric("sum over tokens of the distances of hidden states", summed)


def flat(texts: Sequence[Vectors]) -> Vectors:
    """Of each text, (n, d), as many positions as the shortest has, side by side: (texts, k)."""
    shortest = min(map(len, texts))
    return np.stack([vectors[:shortest].ravel() for vectors in texts])


def rarity(words: Sequence[str], table: EmbeddingTable) -> NDArray[np.float64]:
    """How rare words are in public, (n,), by the logarithm: 1 of those without a frequency."""
    rows = table.rows([table.form(word) for word in words])
    frequencies = np.where(rows >= 0, table.frequency[rows], 0) + LEAST_FREQUENT
    return np.asarray(np.log(frequencies) / log(LEAST_FREQUENT))


@lru_cache(2)
def search_of(table: EmbeddingTable) -> ExactSearch:
    """Return the search over a table, made once."""
    from rapt.privacy.neighbours.search import ExactSearch

    return ExactSearch(table.vectors)


@lru_cache(2)
def goals_of(made: PrivTune, table: EmbeddingTable) -> dict[str, NDArray[np.float64]]:
    """Return where a mechanism leads the noise of the words that it met: every η asks again."""
    return {}


@dataclass(frozen=True)
class HiddenStateMechanism(TextVectorMechanism):
    """A mechanism that releases a model's hidden states of a text, a vector for each token."""

    releases = HiddenStates
    encoder: str = parameter(MINILM, "the model whose first layers the user runs, as in backbones")
    layer: int = parameter(
        3, "how many layers the user runs; 0: none, the vectors of the text's words"
    )

    def __post_init__(self) -> None:
        check("layer", self.layer, "a whole number of at least 0", self.layer >= 0)

    @property
    def is_from_table(self) -> bool:
        """Whether the states are made of the table alone."""
        return self.layer == 0

    def units(self, words: Sequence[str], table: EmbeddingTable) -> Vectors | None:
        """See Mechanism: states that no other word moves."""
        return table.embed(list(words)) if self.is_from_table else None

    def width(self, of_table: int) -> int:
        """The dimension of a state, given that of the table."""
        if self.is_from_table:
            return of_table
        return int(models.config(models.folder(self.encoder, None)).hidden_size)

    def states(self, texts: Texts, table: EmbeddingTable) -> Sequence[Vectors]:
        """Return what the noise is added to, of each text (n, d)."""
        if self.is_from_table:
            return [table.embed(list(text)).reshape(-1, table.dimension) for text in texts]
        return model_encoder(self.encoder, self.layer).states(texts)

    def words_of_tokens(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of the word of each state, (n,); -1 of special tokens."""
        if self.is_from_table:
            return np.arange(len(words))
        return model_encoder(self.encoder, self.layer).words_of_tokens(words)

    def places_of_words(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of the first token of each word, (n,); -1: it has none."""
        of_tokens = self.words_of_tokens(words)
        every, first = np.unique(of_tokens, return_index=True)
        places = np.full(len(words), -1)
        places[every[every >= 0]] = first[every >= 0]
        return places

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return as many states of each text as the shortest has, flat: (n, k)."""
        return flat(self.states(texts, table))

    def release_texts(
        self,
        texts: Texts,
        streams: Sequence[np.random.Generator],
        table: EmbeddingTable,
        eta: float,
    ) -> list[NDArray[np.float64]]:
        """Release the states of each text, float64 (n, d), by the text's own stream."""
        every = zip(texts, self.states(texts, table), streams, strict=True)
        return [self.noisy(words, table, states, rng, eta) for words, states, rng in every]

    def noisy(
        self,
        words: Sequence[str],
        table: EmbeddingTable,
        states: Vectors,
        rng: np.random.Generator,
        eta: float,
    ) -> NDArray[np.float64]:
        """Release the states (n, d) of a text's words."""
        return self.release(states, rng, eta)


@dataclass(frozen=True)
class Split(OnGrid, HiddenStateMechanism):
    """Spherical noise on each hidden state, rounded to a grid (as SAP without sparing).

    With layer 0 it is `token-representation`, draw by draw.
    """

    name = "split"
    source = "Shen et al., 2023, SAP, arXiv 2312.15603"
    claim = TextClaim(
        Metric("sum over tokens of the Euclidean distances of two texts' hidden states", summed),
        ("noise", "sphere", "grid", "states"),
        domain="texts w, w' of as many tokens",
        conditions=(TABLE, FROZEN, LENGTH, GRID, ONCE),
    )


@dataclass(frozen=True)
class Sap(Split):
    """SAP with sparing: the tokens that a text's class hangs on most are sent without noise.

    Their weight is TF-IDF, by the table's public frequencies.
    """

    name = "sap"
    source = "Shen et al., 2023, SAP, arXiv 2312.15603"
    noise = None
    claim = TextClaim(
        published=STATES,
        caveat="Which tokens are spared depends on the text, and they are sent in clear: another "
        "text cannot lead to the same release.",
    )
    spared: float = parameter(0.2, "share of the tokens that get no noise")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("spared", self.spared, "a number from 0 to 1", 0 <= self.spared <= 1)

    def at_distance(self, distances: Distances, eta: float) -> Distances:
        """The density of noise; of a state in clear more than any noise can make up for."""
        return np.where(distances < self.grid, IN_CLEAR, -eta * distances)

    def noisy(
        self,
        words: Sequence[str],
        table: EmbeddingTable,
        states: Vectors,
        rng: np.random.Generator,
        eta: float,
    ) -> NDArray[np.float64]:
        """Put back the states of the words of most weight; a word is its share of the positions."""
        noisy = self.release(states, rng, eta)
        counts = np.array([words.count(word) for word in words])
        weights = counts * rarity(words, table)
        most = np.argsort(-weights, kind="stable")[: round(self.spared * len(words))]
        clear = np.isin(self.words_of_tokens(words), most)
        noisy[clear] = rounded(np.asarray(states[clear], np.float64), self.grid)
        return noisy


@dataclass(frozen=True)
class PrivTune(Split):
    """PrivTune: noise whose mean leads to neighbours of a word's neighbours, more on rare words.

    No formula of it is public: this is what its abstract says. The mean minimizes the squared
    distances to the word's own state and to those that the further words have alone, by their
    weights 1 − `pull` and `pull`. Of the sizes, linkage takes no notice.
    """

    name = "privtune"
    source = "PrivTune, 2025, arXiv 2512.08809, by its abstract"
    noise = None
    claim = TextClaim(
        published=STATES,
        caveat="Where the noise lies and how large it is depends on the word itself, so that no "
        "distance of the states bounds the loss.",
    )
    neighbours: int = parameter(5, "of a word, and of each of its neighbours")
    hops: int = parameter(2, "steps from a word to the neighbours that its noise leads to")
    pull: float = parameter(0.5, "how far the noise leads to them, from 0 to 1")
    heavier: float = parameter(1.0, "how much larger the noise of the rarest words is; 0: equal")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("neighbours", self.neighbours, "a whole number above 0", self.neighbours > 0)
        check("hops", self.hops, "a whole number above 0", self.hops > 0)
        check("pull", self.pull, "a number from 0 to 1", 0 <= self.pull <= 1)
        check("heavier", self.heavier, "a number of at least 0", self.heavier >= 0)

    def encode(self, texts: Texts, table: EmbeddingTable) -> Vectors:
        """Return the states as they are, in which the claim's distance is measured: (n, k)."""
        return flat(super().states(texts, table))

    def states(self, texts: Texts, table: EmbeddingTable) -> Sequence[Vectors]:
        """Return where the noise of each text is centred, (n, d)."""
        goals = goals_of(self, table)
        if len(goals) > KEPT:
            goals.clear()
        every = dict.fromkeys(chain.from_iterable(texts))
        goals |= self._goals([word for word in every if word not in goals], table)
        found = []
        for text, states in zip(texts, super().states(texts, table), strict=True):
            centres = np.array(states, np.float64)
            for row, word in enumerate(self.words_of_tokens(text)):
                if word >= 0:
                    centres[row] += self.pull * (goals[text[word]] - centres[row])
            found.append(centres)
        return found

    def noisy(
        self,
        words: Sequence[str],
        table: EmbeddingTable,
        states: Vectors,
        rng: np.random.Generator,
        eta: float,
    ) -> NDArray[np.float64]:
        """Release the states of a text, with more noise on those of rarer words."""
        sizes = np.append(1 + self.heavier * rarity(words, table), 1.0)  # last: special tokens
        draws = self.draw(rng, *states.shape) * sizes[self.words_of_tokens(words)][:, None]
        return self.represent(states, draws, eta)

    def at_distance(self, distances: Distances, eta: float) -> Distances:
        """The density of noise of the least size."""
        return -eta * distances

    def _goals(self, words: list[str], table: EmbeddingTable) -> dict[str, NDArray[np.float64]]:
        """Return the mean of the states that each word's further neighbours have alone."""
        if not words:
            return {}
        search, count = search_of(table), min(self.neighbours + 1, len(table.words))
        seen = table.rows(map(table.form, words))[:, None]
        last = search.nearest(table.embed(words), count)
        for _ in range(self.hops - 1):
            seen = np.hstack([seen, last])
            rows, places = np.unique(last, return_inverse=True)
            reached = search.nearest(table.vectors[rows], count)[places]
            last = reached.reshape(len(words), last.shape[1] * count)
        further = [
            {*new} - {*old} or {*new} for new, old in zip(last.tolist(), seen.tolist(), strict=True)
        ]
        every = sorted(set[int]().union(*further))
        alone = super().states([[table.words[row]] for row in every], table)
        of_row = {
            row: np.asarray(states[self.words_of_tokens([table.words[row]]) >= 0]).mean(axis=0)
            for row, states in zip(every, alone, strict=True)
        }
        return {
            word: np.mean([of_row[row] for row in sorted(rows)], axis=0)
            for word, rows in zip(words, further, strict=True)
        }


@dataclass(frozen=True)
class DpForward(GaussianNoise, HiddenStateMechanism):
    """DP-Forward: the matrix of a text's states, clipped, plus Gaussian noise: (ε, δ) of any text.

    A text has as many positions as all others: it is cut or padded, and no mask is sent.
    """

    name = "dp-forward"
    source = "Du et al., 2023, DP-Forward (CCS), mended"
    claim = TextClaim(
        ANY_TEXTS,
        ("gaussian",),
        conditions=(TABLE, FROZEN, REAL, ONCE),
        delta=1e-5,
        approximate=True,
    )
    tokens: int = parameter(32, "positions of every text")
    clip: float = parameter(1.0, "C, the Frobenius norm to which larger matrices are shortened")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("tokens", self.tokens, "a whole number above 0", self.tokens > 0)
        check("clip", self.clip, "a number above 0", self.clip > 0)

    def states(self, texts: Texts, table: EmbeddingTable) -> Sequence[Vectors]:
        """Return the clipped matrix of each text, (tokens, d)."""
        found = []
        for states in super().states(texts, table):
            whole = np.zeros((self.tokens, states.shape[1]))
            whole[: len(states)] = states[: self.tokens]
            whole *= self.clip / max(self.clip, float(np.linalg.norm(whole)))
            found.append(whole)
        return found

    def places_of_words(self, words: Sequence[str]) -> NDArray[np.int64]:
        """See HiddenStateMechanism: those beyond the last position have none."""
        places = super().places_of_words(words)
        return np.where(places < self.tokens, places, -1)

    @property
    def sensitivity(self) -> float:
        """Of two clipped matrices."""
        return 2 * self.clip


@dataclass(frozen=True)
class DpForwardAsCoded(DpForward):
    """DP-Forward as its authors' code runs: noise for a sensitivity of 1, where it is 2·C."""

    name = "dp-forward-as-coded"
    source = "Du et al., 2023, DP-Forward, the authors' code"
    claim = replace(
        DpForward.claim,
        formula="the ε of twice the clip at the noise of {eta}",
        published=ANY_TEXTS,
        caveat="Its noise is made for two matrices that are 1 apart, and they are up to 2 C apart. "
        "At C 1 and eta 8 the loss is 19.1, and it grows with C.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._complete_claim(loss=lambda eta, distance: self.holds(eta) * min(1.0, distance))

    @property
    def sensitivity(self) -> float:
        """The code's."""
        return 1.0

    def holds(self, eta: float) -> float:
        """The ε that holds at the noise of η, at the same δ."""
        from scipy.optimize import brentq

        if eta == inf:
            return inf
        mu = 2 * self.clip / self.size(eta)
        if gaussian_delta(mu, 0.0) <= self.delta:
            return 0.0
        highest = mu * (mu / 2 + sqrt(2 * log(1 / self.delta))) + 1
        return float(brentq(lambda e: gaussian_delta(mu, e) - self.delta, 0, highest))
