"""Levels of the sweep: for each method the η that replaces a share of public text's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rapt import paths
from rapt.grid import level
from rapt.privacy.config import Calibrate
from rapt.privacy.mechanisms import wordwise_mechanism
from rapt.privacy.replacement import text_curve
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError


def found(
    table: EmbeddingTable,
    methods: Mapping[str, tuple[Mapping[str, Any], Sequence[str] | None]],
    levels: Sequence[str],
    size: Calibrate,
    seed: int,
) -> list[dict[str, Any]]:
    """Find the η of each method at each level.

    Args:
        table: the embedding table.
        methods: by name, `type` and parameters of the mechanism, and its categories.
        levels: as replaced-50.
        size: how many words and draws it takes.
        seed: of both.

    Raises:
        RaptError: a method reaches a level at no η, or at every one.
    """
    rows = []
    for name, (how, categories) in methods.items() if levels else ():
        made = wordwise_mechanism(**how)
        curve = text_curve(table, made, categories, words=size.words, draws=size.draws, seed=seed)
        for given in levels:
            share = level(given)
            assert share is not None
            eta = curve.eta_for(share)
            if not 0 < eta.eta < float("inf"):
                least = curve.replaced(float("inf")).protected.value
                raise RaptError(
                    f"sweep.etas: got {given} with method {name}, expected a level that an η of it "
                    f"gives. At any η at least {least:.0%} of the protected words are replaced."
                )
            ends = {
                f"eta_{end}": value if value < float("inf") else None
                for end, value in (("low", eta.low), ("high", eta.high))
            }
            rows.append(
                {"method": name, "mechanism": dict(how), "categories": categories, "level": given}
                | {"eta": float(f"{eta.eta:.4g}"), **ends}
            )
    return rows


def eta_of(
    embedding: str, how: Mapping[str, Any], categories: Sequence[str] | None, eta: str
) -> float:
    """Return the number of an η, or of a level as the stage `levels` found it.

    Args:
        embedding: the table's name in params.yaml.
        how: `type` and parameters of the mechanism.
        categories: the method's POS categories.
        eta: as in params.yaml.

    Raises:
        RaptError: the stage has not found it.
    """
    if level(eta) is None:
        return float(eta)
    path = paths.levels(embedding)
    for row in files.read_json(path) if path.is_file() else ():
        if (row["mechanism"], row["categories"], row["level"]) == (dict(how), categories, eta):
            return float(row["eta"])
    raise RaptError(f"{path}: got no η of {eta}, expected one. Try: dvc repro levels@{embedding}")


def facts(eta: str, number: float) -> dict[str, Any]:
    """Return what a statement says of an η: its number, and the level that it came from."""
    return {"eta": eta} if level(eta) is None else {"eta": repr(number), "level": eta}
