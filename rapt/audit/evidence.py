"""Statistics of an audit: lower bounds on a privacy loss, from draws alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv

Codes = NDArray[np.int64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

SINGLES = 3  # outputs that are tried one by one
EVENTS = SINGLES + 3  # tried for each view of a comparison


@dataclass(frozen=True)
class View:
    """Outputs of two inputs, seen as finitely many codes: an event is a set of them.

    Attributes:
        one: int64 (n,), the codes of the draws for the first input.
        other: the same for the second.
        describe: what a set of codes means.
        own: the code of the event fixed in advance, that the first input comes out as it went in;
            None: there is no such code.
    """

    one: Codes
    other: Codes
    describe: Callable[[Codes], str]
    own: int | None = None


@dataclass(frozen=True)
class Evidence:
    """A lower bound on the loss, and the event that shows it."""

    loss: float
    event: str


def loss_bound(hits: Any, draws: int, others: Any, draws_other: int, level: float) -> Any:
    """A lower bound on log P[S] − log P'[S] from how often S happened under both.

    Clopper-Pearson (1934): the least P[S] and the greatest P'[S] that the counts allow. Each is
    wrong with probability at most level / 2, hence the bound with probability at most `level`.

    Args:
        hits: how many of the draws under P lie in S, a number or an array.
        draws: under P.
        others: how many of the draws under P' do.
        draws_other: under P'.
        level: the false-alarm rate.
    """
    hits, others = np.asarray(hits, np.float64), np.asarray(others, np.float64)
    low = betaincinv(np.maximum(hits, 1), draws - hits + 1, level / 2)
    high = betainccinv(others + 1, np.maximum(draws_other - others, 1), level / 2)
    with np.errstate(divide="ignore"):
        return np.log(np.where(hits > 0, low, 0)) - np.log(np.where(others < draws_other, high, 1))


def best_evidence(view: View, bound: float, level: float) -> Evidence:
    """The largest lower bound on the loss over EVENTS events.

    The events are chosen on the first half of the draws and tested on the second. Each has the
    false-alarm rate level / EVENTS, so the choice costs nothing else.

    Args:
        view: of the outputs.
        bound: what the loss may be at most: events beyond it are looked for.
        level: the false-alarm rate.
    """
    size = 1 + int(max(view.one.max(), view.other.max(), view.own or 0))
    (one, test), (other, test_other) = (
        [np.bincount(half, minlength=size) for half in np.array_split(codes, 2)]
        for codes in (view.one, view.other)
    )
    masks = choose(one, other, bound, level / EVENTS, view.own)
    losses = loss_bound(
        masks @ test, int(test.sum()), masks @ test_other, int(test_other.sum()), level / EVENTS
    )
    best = int(losses.argmax())
    if not losses[best] > 0:
        return Evidence(0.0, "none")
    return Evidence(float(losses[best]), view.describe(np.flatnonzero(masks[best])))


def choose(one: Counts, other: Counts, bound: float, level: float, own: int | None) -> Mask:
    """The events that promise most, from the counts of each code: (at most EVENTS, codes).

    By Neyman and Pearson the best event at any size holds the outputs of the largest ratios. One
    such event has the size that shows most. Another is {y: P[y] > e^bound·P'[y]}, which a violation
    makes likeliest. Single outputs and the input itself are tried, too.
    """
    draws, draws_other = int(one.sum()), int(other.sum())
    single = loss_bound(one, draws, other, draws_other, level)
    codes = list(np.argsort(-single, kind="stable")[:SINGLES])
    masks = [np.arange(len(one)) == code for code in codes + ([] if own is None else [own])]
    # With 1 added, or an output seen once and never under P' would come before all others.
    order = np.argsort(-(one + 1) / (other + 1), kind="stable")
    union = loss_bound(one[order].cumsum(), draws, other[order].cumsum(), draws_other, level)
    masks.append(np.isin(np.arange(len(one)), order[: 1 + int(union.argmax())]))
    with np.errstate(divide="ignore", invalid="ignore"):  # logarithms of 0, the bound infinite
        masks.append(np.log(one / draws) > np.log(other / draws_other) + bound)
    return np.array(masks)
