"""The privacy statement that goes with a release."""

from __future__ import annotations

from typing import Any

import numpy as np

from rapt.privacy.mechanisms import parameters
from rapt.privacy.privatizer import Privatizer

D_X, UNPROTECTED = "d_X-privacy", "unprotected"


def statement(privatizer: Privatizer, *, eta: str, **facts: Any) -> dict[str, Any]:
    """What holds for a release and what does not (docs/data.md).

    Args:
        privatizer: what made the release.
        eta: as params.yaml writes it.
        **facts: the fields that the release itself decides (task, method, embedding, …).
    """
    mechanism, scheme = privatizer.mechanism, privatizer.scheme
    protected = not np.isinf(privatizer.eta)
    gaps = [*scheme.not_covered(), *([mechanism.caveat] if mechanism.caveat else [])]
    return facts | {
        "mechanism": mechanism.name,
        "parameters": parameters(mechanism),
        "categories": None if scheme.categories is None else list(scheme.categories),
        "eta": eta,
        "table_sha256": privatizer.table.sha256,
        "metric": mechanism.metric,
        "protection": D_X if protected else UNPROTECTED,
        "guarantee": guarantee(privatizer, eta)
        if protected
        else "None: the words are the originals.",
        "not_covered": gaps if protected else ["Everything."],
    }


def guarantee(privatizer: Privatizer, eta: str) -> str:
    """The bound for a word and for a text, in one sentence."""
    scope = privatizer.scheme.scope()
    within = "" if privatizer.scheme.categories is None else " of one category"
    return (
        f"{scope[0].upper()}{scope[1:]} is released by a mechanism M with "
        f"{privatizer.mechanism.law(eta)}{within}; losses add up over words."
    )
