"""`rapt calibrate`: the η that gives a wanted protection, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rapt import defaults
from rapt.privacy.calibration import Calibrated, Curve, curve
from rapt.privacy.categories import listed
from rapt.privacy.mechanisms import word_mechanism
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError

SEED = 0  # equal calls give equal lines


def calibrate(
    *,
    replaced: float | None,
    worst_kept: float | None,
    folder: Path | None,
    mechanism: str | None,
    categories: Sequence[str],
    words: int,
    draws: int,
) -> str:
    """Find the largest η that protects as wanted, and say so with its interval.

    Args:
        replaced: mean probability that a word becomes another; or
        worst_kept: probability that the least protected word stays as it is, at most.
        folder: of the embedding table; None: the project's, else MiniLM's (rapt.defaults).
        mechanism: its type, with the paper's parameters; None: PCT2T with categories, else T2T.
        categories: one at a time, or several with commas between them; none: every word.
        words: how many words of the table to draw.
        draws: noisy draws of each.

    Raises:
        RaptError: something is missing or not allowed, or no η protects as wanted.
    """
    wanted = {"replaced": replaced, "worst-kept": worst_kept}
    if sum(share is not None for share in wanted.values()) != 1:
        got = "both" if replaced else "neither"
        raise RaptError(
            f"rapt calibrate: got {got} of --replaced and --worst-kept, expected one of them."
        )
    for name, share in wanted.items():
        if share is not None and not 0 < share < 1:
            raise RaptError(f"--{name}: got {share}, expected a number above 0 and below 1.")
    folder = folder or defaults.table()
    table, among = EmbeddingTable(folder), listed(categories)
    mechanism = mechanism or ("pct2t" if among else "t2t")
    found = curve(table, word_mechanism(mechanism), among, words=words, draws=draws, seed=SEED)
    if replaced is not None:
        claim = f"{mechanism} replaces {replaced:.1%} of the words of {folder}"
        said = _mean(found, replaced, claim)
    else:
        claim = f"{mechanism} keeps no word drawn from {folder} in over {worst_kept:.1%} of draws"
        said = _worst(found, worst_kept or 0, claim, table.words)
    return (
        f"{said}\n({len(found.rows)} words, drawn uniformly from its candidates, {found.draws} "
        "draws each; interval of 95 %.)"
    )


def _mean(found: Curve, share: float, claim: str) -> str:
    return f"{_number(found.eta_for_replaced(share), claim)}: {claim}."


def _worst(found: Curve, share: float, claim: str, words: Sequence[str]) -> str:
    """With Wilks's bound (1941) on the candidates beyond the worst of a uniform sample."""
    eta = found.eta_for_worst(share)
    number = _number(eta, claim)
    worst = words[found.rows[found.kept(eta.eta).argmax()]]
    beyond = 1 - 0.05 ** (1 / len(found.rows))
    return (
        f"{number}: {claim}.\nLeast protected: {worst!r}; with 95 % confidence less than "
        f"{beyond:.1%} of the candidates are less protected than the worst of those drawn."
    )


def _number(eta: Calibrated, claim: str) -> str:
    """The η and its interval.

    Raises:
        RaptError: there is none.
    """
    if eta.eta == 0:
        raise RaptError(f"eta: got none small enough, expected one where {claim}.")
    return f"eta {eta.eta:.4g} ({eta.low:.4g} to {eta.high:.4g})"
