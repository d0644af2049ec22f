"""The table and tagger that nobody named: the project's, else the user's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rapt import params, paths
from rapt.table_cache import cached_table


@cache
def project() -> params.Params | None:
    """The experiment of the project that this is the folder of; None: it is no project's."""
    return params.load() if paths.PARAMS.exists() else None


def table(embedding: str | None = None) -> Path:
    """This embedding's table where there is one, else the project's, else MiniLM's, made once."""
    p = project()
    named = paths.table(embedding or (p.embedding if p else ""))
    return named if p or (embedding and named.is_dir()) else cached_table()


def tagger() -> str:
    """The tagger that params.yaml names, where there is one."""
    p = project()
    return paths.TAGGER if p is None else p.tagger
