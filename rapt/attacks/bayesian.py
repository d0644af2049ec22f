"""Inversion by whoever knows the mechanism, and what no such inversion exceeds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array, diags_array

from rapt.attacks.base import Inversion, Inverter, Public, Texts
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior


class Bayesian(Inversion):
    """The most likely original of each released word: argmax P(y|w)·π(w).

    With the true π no attacker who looks at one word at a time is right more often (`ceiling`).
    """

    source: ClassVar[str] = "Tong et al., 2024 (arXiv 2410.17052)"
    knows: ClassVar[str] = "the mechanism with its eta, how frequent words are in public text"
    reads_channel: ClassVar[bool] = True

    type: Literal["bayesian"]
    prior: Annotated[
        Literal["public", "release"],
        Field(description="how frequent words are: in public text, or fitted to the release too"),
    ]

    def fit(self, public: Public) -> Inverter:
        """Nothing is learned: a prior is fitted to the very release that is attacked."""
        table, channel = public.table, public.channel
        assert channel

        def invert(released: Texts) -> list[list[str]]:
            counts = table.counts(released) if self.prior == "release" else None
            posterior = Posterior.of(channel, table.frequency, public.groups, counts)
            originals = {
                table.words[y]: table.words[w] for y, w in enumerate(posterior.mode) if w >= 0
            }
            return [[originals.get(word, word) for word in text] for text in released]

        return invert


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
    inside = counts[channel.rows]
    best = csr_array(diags_array(inside.astype(np.float64)) @ channel.matrix).max(axis=0)
    total = counts.sum() + others
    unknown = total - inside.sum()
    return float((best.sum() + unknown) / max(1, total))
