"""What the papers claim, as sentences that the cells support or do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["supported", "not supported", "not enough data"]


@dataclass(frozen=True)
class Claim:
    """A claim and what the cells say to it.

    Attributes:
        name: for files and anchors.
        sentence: the claim, so that it can be tested.
        source: the paper, and where its numbers say so.
        effect: the mean over the seeds, in `unit`; None without seeds.
        low: where its 95 % confidence interval begins; None with too few seeds.
        high: where it ends.
        n: seeds, which everything is paired over.
        unit: of effect, low and high.
        verdict: supported where the whole interval is on the claim's side of 0.
        basis: what the effect is of, and over which cells it was taken.
    """

    name: str
    sentence: str
    source: str
    effect: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    verdict: Verdict
    basis: str
