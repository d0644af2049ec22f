"""The registry of mechanisms."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rapt.errors import RaptError, not_allowed
from rapt.privacy.mechanisms.base import Mechanism, Sampler, Space
from rapt.privacy.mechanisms.noise import PCT2T, T2T

__all__ = ["MECHANISMS", "PCT2T", "T2T", "Mechanism", "Sampler", "Space", "mechanism", "parameters"]

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (T2T, PCT2T)}


def mechanism(type: str, **given: Any) -> Mechanism:
    """The mechanism of a name with these parameters; others have the paper's values.

    Raises:
        RaptError: there is no such mechanism or parameter, or a value is not allowed.
    """
    if type not in MECHANISMS:
        raise RaptError(not_allowed("mechanism", type, MECHANISMS))
    kind = MECHANISMS[type]
    names = [field.name for field in fields(kind)]
    for name in given:
        if name not in names:
            raise RaptError(not_allowed(f"mechanism {type}", name, names))
    return kind(**given)


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism, by name."""
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
