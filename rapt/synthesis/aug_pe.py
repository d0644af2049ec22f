"""AUG-PE (Xie et al., 2024): a public model writes, and private texts vote for what is like them.

Nothing is trained. In each of T rounds every private text votes for the synthetic texts nearest to
it, the votes get Gaussian noise, and the texts with most votes stay; variations of these follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from rapt import paths
from rapt.param_types import Model
from rapt.privacy.mechanisms.gaussian import gaussian_mu
from rapt.synthesis.base import (
    TEXT,
    Draw,
    Made,
    PrivateTexts,
    Synthesizer,
    holds,
    of_class,
    without_empty,
)
from rapt.tuning.config import Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AugPe(Synthesizer):
    """Votes with Gaussian noise on texts of a model that nobody tunes.

    The votes of a text have the norm 1, so T rounds with noise σ are √T/σ-GDP. Classes run apart:
    a text votes in its own class alone.
    """

    type: Literal["aug-pe"] = "aug-pe"
    variation: Annotated[str, holds(TEXT)] = Field(
        "Rephrase: {text}", description="what asks for a variation of {text}; {label} may stand in"
    )
    rounds: PositiveInt = Field(10, description="of votes; all share ε")
    variations: int = Field(
        3, ge=2, description="texts that come of each one that stays, itself included"
    )
    neighbours: PositiveInt = Field(1, description="texts that a private text votes for")
    select: Literal["rank", "sample"] = Field(
        "rank", description="texts that stay: those with most votes, or drawn in proportion to them"
    )
    encoder: Model = Field(
        paths.MINILM, description="a public encoder, in whose vectors texts are near"
    )
    sampling: Sampling = Sampling(temperature=1.4)

    def write(self, private: PrivateTexts, sizes: Sequence[int], draw: Draw) -> Made:
        """See Synthesizer."""
        from rapt.privacy.mechanisms.encoders import model_encoder
        from rapt.synthesis.author import Author

        draw.seed_torch()
        author, encoder = Author(self, draw.folder), model_encoder(self.encoder, cut=True)

        def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
            """Return the vector of each text, of length 1: no text votes by what is cut off."""
            read = encoder([text.split()[: self.sampling.max_new_tokens] for text in texts])
            return read / np.linalg.norm(read, axis=1, keepdims=True)

        sigma = noise(draw.epsilon, self.delta, self.rounds)
        made = []
        for label, (prompt, size) in enumerate(
            zip(of_class(self, private.names), sizes, strict=True)
        ):
            own = [
                text for text, of in zip(private.texts, private.labels, strict=True) if of == label
            ]
            wanted = vectors(own) if own else np.zeros((0, 1), np.float32)
            kept: list[str] = []
            asked = [prompt] * (size * self.variations)
            for number in range(self.rounds if size else 0):
                texts = kept + author.write(asked)
                rng = draw.stream("votes", label, number)
                counted = votes(wanted, vectors(texts), self.neighbours) if own else 0.0
                noised = counted + sigma * rng.standard_normal(len(texts))
                kept = [texts[place] for place in self.chosen(noised, size, rng)]
                ask = self.variation.replace("{label}", private.names[label])
                asked = [ask.replace(TEXT, text) for text in kept] * (self.variations - 1)
            made.append(kept)
        return without_empty(made, {"noise": sigma, "rounds": float(self.rounds)})

    def chosen(
        self, noised: NDArray[np.float64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the places of `size` texts by their votes with noise, (n,)."""
        if self.select == "rank" or not (noised > 0).any():
            return np.argsort(-noised, kind="stable")[:size]
        weights = np.maximum(noised, 0)
        return rng.choice(len(noised), size, p=weights / weights.sum())


def votes(
    private: NDArray[np.floating], synthetic: NDArray[np.floating], neighbours: int = 1
) -> NDArray[np.float64]:
    """Count the votes of private texts for synthetic ones, float64 (m,).

    Each has 1/√k for each of its k nearest: a text more or less changes the counts by the norm 1.

    Args:
        private: vectors (n, d).
        synthetic: vectors (m, d).
        neighbours: k.
    """
    from sklearn.neighbors import NearestNeighbors

    k = min(neighbours, len(synthetic))
    near = NearestNeighbors(n_neighbors=k).fit(synthetic)
    places = near.kneighbors(private, return_distance=False)
    return np.bincount(places.ravel(), minlength=len(synthetic)) / sqrt(k)


def noise(epsilon: float, delta: float, rounds: int) -> float:
    """Return σ of the votes of every round, so that all are (ε, δ)-private together.

    μ² adds up over rounds of Gaussian noise, so μ = √T/σ (Dong et al., 2022), and δ(ε) is that of
    Balle and Wang (2018).
    """
    return sqrt(rounds) / gaussian_mu(epsilon, delta)
