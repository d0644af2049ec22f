"""`rapt calibrate`: the η that gives a wanted protection, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rapt.options import Categories, Mechanism, Table
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.privacy.calibration import Calibrated, Curve

SEED = 0  # equal calls give equal lines


def calibrate(
    replaced: Annotated[
        float | None, typer.Option(help="Share of the words to replace, in the mean.")
    ] = None,
    worst_kept: Annotated[
        float | None, typer.Option(help="Share of its draws that may keep any one word.")
    ] = None,
    table: Table = None,
    categories: Categories = None,
    mechanism: Mechanism = None,
    words: Annotated[int, typer.Option(help="Words to draw from the table.", min=2)] = 300,
    draws: Annotated[int, typer.Option(help="Noisy draws for each.", min=1)] = 200,
) -> None:
    """Find the largest eta that replaces words as often as you want."""
    from rapt import defaults
    from rapt.privacy.calibration import curve
    from rapt.privacy.categories import listed
    from rapt.privacy.mechanisms import word_mechanism
    from rapt.text.table import EmbeddingTable

    wanted = {"replaced": replaced, "worst-kept": worst_kept}
    if sum(share is not None for share in wanted.values()) != 1:
        got = "both" if replaced else "neither"
        raise RaptError(
            f"rapt calibrate: got {got} of --replaced and --worst-kept, expected one of them."
        )
    for name, share in wanted.items():
        if share is not None and not 0 < share < 1:
            raise RaptError(f"--{name}: got {share}, expected a number above 0 and below 1.")
    folder = table or defaults.table()
    opened, among = EmbeddingTable(folder), listed(categories or ())
    mechanism = mechanism or ("pct2t" if among else "t2t")
    found = curve(
        opened,
        word_mechanism(mechanism),
        among,
        words=words,
        draws=draws,
        seed=SEED,
        by_frequency=replaced is not None,
    )
    if replaced is not None:
        claim = f"{mechanism} replaces {replaced:.1%} of the words of {folder}"
        said, drawn = _mean(found, replaced, claim), "by public frequency"
    else:
        claim = f"{mechanism} keeps no word drawn from {folder} in over {worst_kept:.1%} of draws"
        said, drawn = _worst(found, worst_kept or 0, claim, opened.words), "uniformly"
    typer.echo(
        f"{said}\n({len(found.shares(1.0))} words, drawn {drawn} from its candidates, "
        f"{found.draws} draws of each; interval of 95 %.)"
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
