"""Inversion by whoever knows the mechanism, and what no such inversion exceeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release

if TYPE_CHECKING:
    from rapt.privacy.channel import Channel
    from rapt.privacy.posterior import Posterior
    from rapt.text.table import EmbeddingTable

Prior = Annotated[
    Literal["public", "release"],
    Field(description="how frequent words are: in public text, or fitted to the release too"),
]


class Bayesian(Inversion):
    """The most likely original of each released word: argmax P(y|w)·π(w).

    With the true π no attacker who looks at one word at a time is right more often (`ceiling`).
    Of several releases of the same texts the P(y|w) multiply: each costs η anew.
    """

    source: ClassVar[str] = "Tong et al., 2024 (arXiv 2410.17052)"
    knows: ClassVar[str] = "the mechanism with its eta, how frequent words are in public text"
    reads_channel: ClassVar[bool] = True

    type: Literal["bayesian"]
    prior: Prior = "release"
    copies: Annotated[
        PositiveInt, Field(description="releases of the same texts that the attacker has")
    ] = 1

    @property
    def takes(self) -> int:
        """How many releases of the same texts the attacker has."""
        return self.copies

    @property
    def given(self) -> str | None:
        """Every further release of a text costs its η anew."""
        return f"{self.copies} releases" if self.copies > 1 else None

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Nothing is learned: a prior is fitted to the very release that is attacked."""

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            return likeliest(posterior(public, self.prior, copies), public.table, copies)

        return Inverter(invert)

    def ceilings(self, public: Public, counts: NDArray[np.int64], others: int) -> dict[str, float]:
        """Of a single copy; of several there is none that is known."""
        if self.copies > 1:
            return {}
        assert public.channel
        return {"accuracy_protected": ceiling(public.channel, counts, others)}


def posterior(public: Public, prior: str, copies: Sequence[Release]) -> Posterior:
    """P(w|y) of some releases, by the prior that an attack's parameter names."""
    from rapt.privacy.posterior import Posterior

    assert public.channel
    every = [text for copy in copies for text in copy.words]
    counts = public.table.counts(every) if prior == "release" else None
    found = Posterior.of(public.channel, public.table.frequency, public.groups, counts)
    # A word without a count there is no reason to take for another; other copies would tell.
    if prior == "public" and len(copies) == 1:
        return found.restricted(public.table.frequency > 0)
    return found


def likeliest(
    posterior: Posterior, table: EmbeddingTable, copies: Sequence[Release]
) -> list[list[str]]:
    """The likeliest original of each word, given what became of it in each copy."""
    flat = [list(chain.from_iterable(copy.words)) for copy in copies]
    seen = list(zip(*flat, strict=True))
    distinct = [pair for pair in dict.fromkeys(seen) if (table.rows(pair) >= 0).all()]
    rows = np.array([table.rows(pair) for pair in distinct], np.int64)
    modes = posterior.modes(rows.reshape(-1, len(copies)))
    likely = {p: table.words[w] for p, w in zip(distinct, modes, strict=True) if w >= 0}
    words = iter(likely.get(pair, pair[0]) for pair in seen)
    return [list(islice(words, len(text))) for text in copies[0].words]


def ceiling(channel: Channel, counts: NDArray[np.int64], others: int) -> float:
    """What share of the victims' words an attacker recovers at most who sees no context.

    Even one who knows how frequent each of the victims' words is: Σ_y max_w P(y|w)·π(w), the Bayes
    vulnerability (Chatzikokolakis et al., 2020). Words that the channel does not know count as
    recovered, and the maximum over what draws are there of errs upwards, too.

    Args:
        channel: P(y|w).
        counts: of each word of the table how often the victims have it, int64 (V,).
        others: the victims' words beside those.
    """
    from scipy.sparse import csr_array, diags_array

    inside = counts[channel.rows]
    best = csr_array(diags_array(inside.astype(np.float64)) @ channel.matrix).max(axis=0)
    total = counts.sum() + others
    unknown = total - inside.sum()
    return float((best.sum() + unknown) / max(1, total))
