"""`rapt ledger`: what has been released of the user's own texts."""

from __future__ import annotations

import math
from typing import Annotated

import typer


def ledger(
    reset: Annotated[bool, typer.Option("--reset", help="Forget all releases.")] = False,
) -> None:
    """Show how many texts were released how often, and what they lost."""
    from rapt.release.ledger import Ledger
    from rapt.release.sentences import MINIMUM

    known = Ledger()
    if reset:
        known.reset()
    texts, releases, most = known.total()
    lost = f"{most:.4g} nats" if most < math.inf else "all, without a bound"
    typer.echo(
        f"{texts} texts in {releases} releases; one has lost {lost} in all, and been released "
        f"{known.most_often()} times ({known.path}). A text is counted by its words with noise, as "
        f"is each of its sentences of {MINIMUM} or more of them. A sentence that is less than half "
        "of another text is not counted there"
    )
