"""Levels of the sweep, such as replaced-50: the η that the stage `levels` found for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rapt import paths
from rapt.param_types import level
from rapt.utils import files
from rapt.utils.errors import RaptError


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
