"""`rapt distinguish`: how well the releases of two texts can be told apart."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Annotated

import typer

from rapt.options import Categories, Table, Tagger, parsed_eta
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.attacks.distinguish import Distinguished

SEED = 0  # equal calls give equal lines
ALL = 0.9995  # an advantage that is 1.000 in print


def distinguish(
    one: Annotated[str, typer.Argument(help="A text.")],
    other: Annotated[str, typer.Argument(help="Another text.")],
    eta: Annotated[str, typer.Option(help="Privacy parameter.")],
    mechanism: Annotated[
        str | None,
        typer.Option(help="Of `rapt mechanisms`. Else pct2t with categories, t2t without."),
    ] = None,
    table: Table = None,
    categories: Categories = None,
    tagger: Tagger = None,
    draws: Annotated[int, typer.Option(help="Releases of each text.", min=30)] = 3000,
) -> None:
    """Release two texts again and again, and say how well an attacker tells them apart."""
    from rapt import defaults
    from rapt.attacks.distinguish import distinguish as measured
    from rapt.privacy import mechanisms
    from rapt.privacy.categories import listed
    from rapt.text.table import EmbeddingTable
    from rapt.text.tagging import Tagger as SpacyTagger

    strength, among = parsed_eta(eta), listed(categories or ())
    made = mechanisms.mechanism(mechanism or ("pct2t" if among else "t2t"))
    opened = EmbeddingTable(table or defaults.table())
    privatizer = made.privatizer(table=opened, eta=strength, categories=among)
    using = SpacyTagger(tagger or defaults.tagger(), tags=among is not None)
    first, second = (
        privatizer.text(tagged.words, tagged.pos, tagged.identifiers)
        for tagged in using.texts([one, other])
    )
    lengths = len(first.words), len(second.words)
    if not all(lengths):
        raise RaptError("rapt distinguish: got a text without words, expected two texts.")
    found = measured(privatizer, first, second, draws, SEED)
    equal = sum(a == b for a, b in zip(first.words, second.words, strict=False))
    typer.echo(
        f"{max(lengths) - equal} of {max(lengths)} words differ. {_bound(found)}\n"
        f"An attacker who knows both texts has an advantage of {found.advantage:.3f} "
        f"({found.low:.3f} to {found.high:.3f}) over a coin, in {found.draws} new releases of "
        "each.\n(0: as good as a coin. 1: always right.)"
    )
    if found.low > found.allowed:
        raise RaptError(
            f"advantage: got at least {found.low:.3f}, expected at most {found.allowed:.3f}, which "
            f"{made.name} promises. See: rapt audit --mechanism {made.name}"
        )


def _bound(found: Distinguished) -> str:
    if isinf(found.loss):
        return "Nothing is promised between them."
    if found.allowed > ALL:
        return f"A release may tell {found.loss:.4g} nats of which it is, which rules nothing out."
    return (
        f"A release tells at most {found.loss:.4g} nats of which it is: so no attacker's advantage "
        f"is above {found.allowed:.3f}."
    )
