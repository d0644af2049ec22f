"""Bayesian inversion by an attacker who knows the mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from rapt.attacks.base import (
    Inversion,
    Inverter,
    Occurrence,
    Pairs,
    Public,
    Release,
    by_text,
)

if TYPE_CHECKING:
    from rapt.privacy.posterior import Posterior
    from rapt.text.table import EmbeddingTable

Prior = Annotated[
    Literal["public", "release"],
    Field(description="how frequent words are: in public text, or fitted to the release too"),
]
Copies = Annotated[
    PositiveInt, Field(description="releases of the same texts that the attacker has")
]


class Bayesian(Inversion):
    """The most likely original of each released word: argmax P(y|w)·π(w).

    With the true π it is optimal among attackers who look at one word at a time (`upper_bound`).
    For several releases of the same texts the P(y|w) multiply; each release costs η again.
    """

    source = "Tong et al., 2024 (arXiv 2410.17052)"
    attacker_knowledge = "the mechanism with its eta, how frequent words are in public text"
    reads_channel = True

    type: Literal["bayesian"]
    prior: Prior = "release"
    copies: Copies = 1

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn nothing yet: the prior is fitted to the attacked release itself."""

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            return likeliest(posterior(public, self.prior, copies), public.table, copies)

        return Inverter(invert)

    def upper_bounds(self, public: Public, words: Mapping[Occurrence, int]) -> dict[str, float]:
        """Return the bound for a single release; for several none is known."""
        from rapt.attacks.upper_bound import upper_bound

        if self.copies > 1:
            return {}
        return {"accuracy_protected": upper_bound(public, words)}


def posterior(public: Public, prior: str, copies: Sequence[Release]) -> Posterior:
    """Compute P(w|y) of some releases, under the prior that an attack's parameter names."""
    from rapt.privacy.posterior import Posterior

    assert public.channel
    every = [text for copy in copies for text in copy.words]
    counts = public.table.counts(every) if prior == "release" else None
    found = Posterior.of(public.channel, public.table.frequency, public.groups, counts)
    # A word without a public count is taken as it is; other copies would tell its original.
    if prior == "public" and len(copies) == 1:
        return found.restricted(public.table.frequency > 0)
    return found


def likeliest(
    posterior: Posterior, table: EmbeddingTable, copies: Sequence[Release]
) -> list[list[str]]:
    """Return the most likely original of each word, given its released word in each copy."""
    flat = [list(chain.from_iterable(copy.words)) for copy in copies]
    seen = list(zip(*flat, strict=True))
    distinct = [pair for pair in dict.fromkeys(seen) if (table.rows(pair) >= 0).all()]
    rows = np.array([table.rows(pair) for pair in distinct], np.int64)
    modes = posterior.modes(rows.reshape(-1, len(copies)))
    likely = {p: table.words[w] for p, w in zip(distinct, modes, strict=True) if w >= 0}
    return by_text(copies[0].words, (likely.get(pair, pair[0]) for pair in seen))
