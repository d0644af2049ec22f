"""`rapt try`: a local page to try texts on."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from rapt.options import Table, Tagger
from rapt.paths import TAGGER
from rapt.utils.process import without


def try_(
    table: Table = None,
    tagger: Tagger = None,
    port: Annotated[
        int, typer.Option(help="Of this machine's loopback; 0: a free one.", min=0, max=65535)
    ] = 0,
) -> None:
    """Open a page to try a text: each word's fate, and what an attacker guesses."""
    from rapt import defaults

    tagger = tagger or defaults.tagger()
    # As in `rapt privatize`: spaCy imports PyTorch where it is installed, which takes long.
    with without("torch") if tagger == TAGGER else nullcontext():
        from rapt.serving.trial import serve

    serve(table or defaults.table(), tagger, port)
