"""Black-box tests: lower bounds on a privacy loss from how often words come out, and their law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom

from rapt.audit.cases import UNKNOWN, Case
from rapt.audit.exact import POWER, differs, exact_law, smallest_excess
from rapt.audit.laws import Streams, before_noise
from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import (
    RewritingMechanism,
    TextVectorMechanism,
    VectorMechanism,
    WordMechanism,
)

Counts = NDArray[np.int64]
Law = NDArray[np.float64]

COPIES = 500  # of a word in one text, where each draws anew
SIMULATED = 100_000  # draws of a word, from which the power is computed
NAMED = 4  # outputs in the text of an event


@dataclass(frozen=True)
class Finding:
    """The strongest evidence from the outcomes of two words.

    Attributes:
        eta: the privacy parameter.
        one: the word whose output is more likely than the law allows, if it is.
        other: the word that it is compared with.
        loss: lower bound on log P[M(one) in S] − log P[M(other) in S].
        event: S.
        bound: the largest loss under the guarantee that rapt states.
        claim: the largest loss under the published claim.
    """

    eta: float
    one: str
    other: str
    loss: float
    event: str
    bound: float
    claim: float


def counts(case: Case, word: str, random: Streams) -> Counts:
    """How often a word becomes each word of the table, or at last another one, int64 (V + 1,)."""
    kind, table = case.mechanism, case.table
    copies = COPIES if kind.releases.aligned else 1
    texts = (
        PreparedText(
            [word] * copies, [0] * copies, partial(random, kind.name, case.eta, word, text)
        )
        for text in range(-(-case.draws // copies))
    )
    total = np.zeros(len(table.words) + 1, np.int64)
    if isinstance(kind, TextVectorMechanism):  # in float64, before it is a release
        streams = [text.stream() for text in texts]
        every = kind.release_texts([[word]] * len(streams), streams, table, case.eta)
        return total + np.bincount(case.space.rows(np.concatenate(every)), minlength=len(total))
    categories = ("noun",) if kind.categories == "required" else None
    privatizer = kind.privatizer(table=table, eta=case.eta, categories=categories)
    for released in privatizer.release(texts):
        # A text of another length shows by its first word: what follows from it is no secret.
        words = released.words if kind.releases.aligned else [*released.words, UNKNOWN][:1]
        total += np.bincount(table.rows(words) % len(total), minlength=len(total))
    return total


def findings(case: Case, found: dict[str, Counts], level: float) -> Iterator[Finding]:
    """Compare the words of each pair in both directions, each with this false-alarm rate."""
    words = [*case.table.words, "a word outside the table"]
    for pair in case.pairs:
        for one, other in (pair, pair[::-1]):
            bound, claim = allowed(case, one, other)
            masks = events(len(words))
            losses = losses_shown(masks, found[one], found[other], level)
            best = int(losses.argmax())
            event = [word for word, within in zip(words, masks[best], strict=True) if within]
            more = [f"{len(event) - NAMED} more"] if len(event) > NAMED else []
            shown = ", ".join(event[:NAMED] + more)
            yield Finding(case.eta, one, other, max(0.0, float(losses[best])), shown, bound, claim)


def allowed(case: Case, one: str, other: str) -> tuple[float, float]:
    """The largest loss by the guarantee, and by the published claim."""
    kind = case.mechanism
    sides = [
        np.asarray(before_noise(kind, [word], case.table), np.float64) for word in (one, other)
    ]
    bound, published = kind.claim.loss, kind.claim.published
    holds = bound(case.eta, float(kind.distance(case.space, *sides)[0]))
    if published is None:
        return holds, holds
    return holds, case.eta * float(published.between(kind, case.space, *sides)[0])


def events(size: int) -> NDArray[np.bool_]:
    """The tested sets of outputs, (events, size): each output, and all up to or from each."""
    upto = np.tri(size, dtype=bool)[:-1]
    return np.concatenate([np.eye(size, dtype=bool), upto, ~upto])


def losses_shown(
    masks: NDArray[np.bool_], one: Counts, other: Counts, level: float
) -> NDArray[np.float64]:
    """The lower bound on the loss for each event; all hold at once but for the level."""
    share = level / len(masks)
    return np.asarray(loss_bound(masks @ one, one.sum(), masks @ other, other.sum(), share))


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


def shows(one: Law, other: Law, draws: int, bound: float, level: float) -> bool:
    """Whether the outcomes of two laws show a loss above the bound, with probability POWER."""
    masks, missed = events(len(one)), (1 - POWER) / 2
    hits = binom.ppf(missed, draws, (masks @ one).clip(max=1))
    others = binom.isf(missed, draws, (masks @ other).clip(max=1))
    return bool((loss_bound(hits, draws, others, draws, level / len(masks)) > bound).any())


def black_box_excess(case: Case, random: Streams, level: float, law_level: float) -> float | None:
    """The smallest factor on η that the first pair shows, by its loss or by its exact law.

    The laws at f·η are exact, or those of the mechanism run at f·η by the same draws each time.
    """
    pair = case.pairs[0]
    bound, _ = allowed(case, *pair)
    if not np.isfinite(bound) or isinstance(case.mechanism, RewritingMechanism):
        return None  # what it draws is its own
    rows = case.table.rows(pair)
    drawn = [_drawn(case, random(case.mechanism.name, "power", word)) for word in pair]

    def laws(factor: float) -> tuple[Law, ...]:
        exact = exact_law(case.mechanism, case.space, factor * case.eta)
        if exact is not None:
            return tuple(exact[rows])
        return tuple(_simulated(case, *both, factor) for both in zip(pair, drawn, strict=True))

    promised = exact_law(case.mechanism, case.space, case.eta)

    def detects(factor: float) -> bool:
        one, other = laws(factor)
        return (
            shows(one, other, case.draws, bound, level)
            or shows(other, one, case.draws, bound, level)
            or (promised is not None and differs(promised[rows[0]], one, case.draws, law_level))
        )

    return smallest_excess(detects)


def _drawn(case: Case, rng: np.random.Generator) -> Law:
    """Draw for many releases of one word."""
    size, kind = min(SIMULATED, case.draws), case.mechanism
    assert isinstance(kind, WordMechanism | VectorMechanism)
    each, calls = (size, 1) if kind.releases.aligned else (1, size)
    dimension = case.space.vectors.shape[1]
    return np.concatenate([kind.draw(rng, each, dimension) for _ in range(calls)])


def _simulated(case: Case, word: str, drawn: Law, factor: float) -> Law:
    """The law of a word's outcomes, by draws, of an implementation that spends f·η."""
    kind, eta = case.mechanism, factor * case.eta
    if isinstance(kind, WordMechanism):
        vectors = np.repeat(case.table.embed([word]), len(drawn), axis=0)
        rows = kind.sampler(case.space, eta)(vectors, drawn)
    else:
        assert isinstance(kind, VectorMechanism)
        rows = case.space.rows(kind.represent(before_noise(kind, [word], case.table), drawn, eta))
    return np.bincount(rows, minlength=len(case.table.words)) / len(rows)
