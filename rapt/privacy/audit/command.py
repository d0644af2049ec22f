"""`rapt audit`."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

from rapt.privacy import audit as audits
from rapt.privacy.audit.cases import ETAS, Choice, Pairs
from rapt.privacy.audit.show import as_json, print_audit
from rapt.utils.errors import RaptError


def audit(
    *,
    mechanisms: Sequence[str],
    etas: Sequence[float],
    table: Path | None,
    words: Sequence[str],
    pairs: Sequence[str],
    draws: int,
    dimensions: int | None,
    seed: int | None,
    json: Path | None,
) -> bool:
    """Audit, print and write the verdicts; whether a law that rapt vouches for is violated.

    Raises:
        RaptError: an option is not allowed.
    """
    choice = Choice(
        mechanisms=mechanisms,
        etas=etas or ETAS,
        table=table,
        words=words,
        pairs=_pairs(pairs),
        draws=draws,
        dimensions=dimensions,
    )
    found = audits.audit(audits.cases_of(choice), seed)
    print_audit(found)
    if json:
        content = json_format.dumps(as_json(found), indent=1, ensure_ascii=False, allow_nan=False)
        json.write_text(content + "\n")
    return found.violated


def _pairs(pairs: Sequence[str]) -> Pairs:
    split = []
    for pair in pairs:
        one, colon, other = pair.partition(":")
        if not (one and colon and other) or one == other:
            raise RaptError(f"pairs: got {pair!r}, expected two words, as in cat:dog.")
        split.append((one, other))
    return split
