"""The η of each method at levels such as replaced-50 or linked-10, on public text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from rapt.measures.calibration import grid, largest
from rapt.measures.replacement import TextCurve, text_curve
from rapt.param_types import level
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.channel import Rows, Share, estimate
from rapt.privacy.config import Calibrate
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.posterior import Posterior, draws
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

# The attacker's channel: so many frequent words beside those of the texts, draws of each, and
# further draws by frequency. Each word of the texts is attacked VICTIMS times.
FREQUENT, DRAWS, BY_FREQUENCY, VICTIMS = 2000, 20, 20_000, 20
# The search for a level of recovered words ends below at this part of the η above it.
LEAST = 1 / 32

Found = dict[str, float]  # `eta`, and what was measured there
Linked = Callable[[AnyPrivatizer[Any], int], Share]  # how often releases are linked, by a seed


def at_levels(
    table: EmbeddingTable,
    methods: Mapping[str, tuple[Mapping[str, Any], Sequence[str] | None]],
    levels: Sequence[str],
    size: Calibrate,
    seed: int,
    linked: Linked,
) -> list[dict[str, Any]]:
    """Find the η of each method at each level.

    Args:
        table: the embedding table.
        methods: by name, `type` and parameters of the mechanism, and its categories.
        levels: as replaced-50.
        size: how many words and draws it takes.
        seed: of both.
        linked: measures how often a privatizer's releases are linked, by a seed.

    Raises:
        RaptError: a method reaches a level at no η, or at every one: a line for each.
    """
    rows, problems = [], []
    for name, (how, categories) in methods.items() if levels else ():
        made = mechanism(**how)
        anywhere = made.privatizer(table=table, eta=np.inf, categories=categories)
        # For a level of words alone: a curve is of words.
        curve = cache(
            lambda made=made, categories=categories: text_curve(
                table, made, categories, words=size.words, draws=size.draws, seed=seed
            )
        )
        measured = cache(lambda eta, anywhere=anywhere: linked(anywhere.at(eta), seed))
        for given in levels:
            wanted = level(given)
            assert wanted
            if wanted.measure == "replaced":
                found = _replaced(curve(), wanted.share)
                least = curve().replaced(float("inf")).protected.value
                why = f"At any η at least {least:.0%} of the protected words are replaced."
            elif wanted.measure == "recovered":
                found = eta_for_recovered(curve(), of_words(anywhere).at, wanted.share, seed)
                why = "Its upper bound is higher at any η. Raise calibrate.words, or the level."
            else:
                found = eta_for_linked(measured, wanted.share)
                why = "It is linked more often at any η, or less often at every one."
            if found is None:
                problems.append(
                    f"sweep.etas: got {given} with method {name}, expected a level that an η of it "
                    f"gives. {why}"
                )
                continue
            claim = made.claim.within_categories() if categories else made.claim
            rows.append(
                {"method": name, "mechanism": dict(how), "categories": categories, "level": given}
                | found
                | {"metric": made.metric, "guarantee": claim.law(repr(found["eta"]))}
            )
    if problems:
        raise RaptError("\n".join(problems))
    return rows


def _replaced(curve: TextCurve, share: float) -> Found | None:
    """Find the largest η that replaces a share of the protected words; None: there is none."""
    eta = curve.largest(share)
    if not 0 < eta < float("inf"):
        return None
    at = curve.replaced(eta).protected
    found = {"replaced": at.value, "replaced_low": at.low, "replaced_high": at.high}
    return {"eta": float(f"{eta:.4g}")} | found


def eta_for_recovered(
    curve: TextCurve, at: Callable[..., Privatizer], share: float, seed: int
) -> Found | None:
    """Find the largest η at which recovery is surely at most a share; None: there is none.

    An attacker recovers about the words that stay, and some more. So the level's η is below the one
    that leaves more words.

    Args:
        curve: of the texts.
        at: makes the privatizer at `eta`.
        share: of the protected words.
        seed: of the draws.

    Returns:
        `eta`, and there `recovered` with its upper bound, `recovered_high`.
    """
    most = next(
        (
            eta
            for stays in ((1 + share) / 2, share)
            if 0 < (eta := curve.largest(1 - stays)) < np.inf
        ),
        None,
    )
    if most is None:
        return None
    tried: dict[float, Share] = {}

    def holds(eta: float) -> bool:
        tried[eta] = recovered(curve, at(eta=eta), seed)
        return tried[eta].high <= share

    etas = [float(f"{eta:.4g}") for eta in grid(LEAST * most, most)]
    eta = largest(holds, np.array(etas))
    if eta == 0:
        return None
    eta = min(eta, etas[-1])
    return {"eta": eta, "recovered": tried[eta].value, "recovered_high": tried[eta].high}


def recovered(curve: TextCurve, privatizer: Privatizer, seed: int) -> Share:
    """Measure the share of texts' protected words that a Bayesian attacker recovers.

    He knows the mechanism with its η, and how frequent words are. He takes the mode of each
    released word's posterior. Intervals are those of `TextCurve.replaced`.

    Args:
        curve: of the texts.
        privatizer: of the release.
        seed: of the attacker's draws; the victims' are others.
    """
    table, rows = privatizer.table, curve.curve.rows
    candidates = privatizer.candidates
    frequent = candidates[np.argsort(-table.frequency[candidates], kind="stable")[:FREQUENT]]
    known: Rows = np.union1d(frequent, rows)
    channel = estimate(
        privatizer, known, DRAWS + draws(table.frequency, known, BY_FREQUENCY), seed + 1
    )
    groups = privatizer.groups_of_rows(np.arange(len(table.words)))
    posterior = Posterior.of(channel, table.frequency, groups)
    victims = estimate(privatizer, rows, VICTIMS, seed + 2).counts.tocoo()
    guessed = posterior.modes(victims.col.astype(np.int64)[:, None])
    right = np.where(guessed == rows[victims.row], victims.data, 0)
    shares = np.bincount(victims.row, right, minlength=len(rows)) / VICTIMS
    hidden = curve.shares(1 - shares, VICTIMS).protected
    return Share(1 - hidden.value, 1 - hidden.high, 1 - hidden.low)


def eta_for_linked(at: Callable[[float], Share], share: float) -> Found | None:
    """Find the largest η at which surely at most a share is linked; None: there is none.

    Args:
        at: measures the share of releases that are linked at an η.
        share: of the releases.

    Returns:
        `eta`, and there `linked` with its upper bound, `linked_high`.
    """
    etas = np.array([float(f"{eta:.4g}") for eta in grid()])
    eta = largest(lambda eta: at(eta).high <= share, etas)
    if not 0 < eta < np.inf:
        return None
    return {"eta": eta, "linked": at(eta).value, "linked_high": at(eta).high}
