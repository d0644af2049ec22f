"""Reproduce the DVC graph in parallel, on a pool too where one is given: `rapt flow`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines import remote, reproduce, walk
from rapt import process
from rapt.errors import RaptError


def main(
    slots: Annotated[int, typer.Option(min=1, help="Stages side by side here.")] = process.cores(),
    pool: Annotated[
        str | None, typer.Option(help="Prefect work pool for the provider's stages; else here.")
    ] = None,
    repository: Annotated[
        str | None, typer.Option(help="Where the pool's workers fetch from; else git's origin.")
    ] = None,
) -> None:
    """Reproduce the DVC graph, several stages at a time."""
    walk.told(lambda: start(slots, pool, repository))


def start(slots: int, pool: str | None, repository: str | None) -> None:
    """Start the flow that these options are for.

    Raises:
        RaptError: see its text.
    """
    if pool:
        remote.start(pool, slots, repository)
    elif repository:
        raise RaptError(f"repository: {repository!r} given, allowed: with --pool")
    else:
        reproduce.start(slots)


def run() -> None:
    """Read the options of the command line."""
    app = typer.Typer(add_completion=False)
    app.command()(main)
    app(prog_name="rapt flow")


if __name__ == "__main__":
    run()
