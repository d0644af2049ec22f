"""Options of more than one command, and what they allow. It imports no more than Typer does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rapt.utils.errors import RaptError, wrong_eta

CATEGORIES = (
    "noun, verb, pronoun, preposition, adjective, symbol, determiner, conjunction, adverb, number, "
    "other; or content, paper or all alone"
)
MECHANISMS = (
    "t2t, pct2t, mahalanobis, vickrey, rank-neighbours, tem, santext, santext-plus, custext, "
    "truncated-gumbel, imola"
)
FORMATS = "text, csv, tsv, jsonl, parquet"


def parsed_eta(text: str) -> float:
    """Parse a privacy parameter, a number above 0."""
    try:
        eta = float(text)
    except ValueError:
        eta = 0.0
    if not eta > 0:  # said before a table is made
        raise RaptError(f"eta: {wrong_eta(text)}")
    return eta


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Categories = Annotated[
    list[str] | None,
    typer.Option(help=f"Parts of speech that get noise: {CATEGORIES}. Else every word."),
]
Mechanism = Annotated[
    str | None, typer.Option(help=f"{MECHANISMS}. Else pct2t with categories, t2t without.")
]
Table = Annotated[
    Path | None, typer.Option(help="Embedding table; else params.yaml's, or MiniLM's.")
]
Tagger = Annotated[str | None, typer.Option(help="spaCy model; else params.yaml's.")]
Language = Annotated[
    str | None,
    typer.Option(help="Code of the texts' language, or any: not checked. Else the tagger's."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="NATS|Nx",
        help="The most that a text may lose over all its releases: nats, or N releases like this.",
    ),
]
Header = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether the first line names the columns.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="Between fields; else comma, semicolon, tab or pipe, as found.")
]
Encoding = Annotated[
    str | None, typer.Option(help="As cp1252; else UTF-8, or as a byte order mark says.")
]
AllowWeak = Annotated[
    bool, typer.Option("--allow-weak", help="Release at an eta that replaces hardly a word.")
]
