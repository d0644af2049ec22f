"""The gate on a release: which checks must hold, and its JSON (docs/data.md, “Gates”)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rapt.privacy.release_checks import Release, Replaced, Rows
from rapt.results.gates import Finding, Part, report
from rapt.utils import files
from rapt.utils.progress import bar

WORDS = "every word is one that the mechanism releases"
# What each flag of rapt.privacy.release_checks says, and what is allowed.
FLAGS = {
    "promised": ("the statement is that of params.yaml", "the same mechanism, eta and contents"),
    "law": ("law of the outcomes", "that of an independent replay (false alarms: 1e-6 a seed)"),
    "drawn": ("plain tokens are public words", "those that params.yaml draws"),
    "in_order": ("same examples", "the same ids in the same order"),
    "alike": ("words that share their noise", "the same word in their stead"),
    "beside": ("spacing and segments", "those of the text"),
    "as_many": ("same number of words", "as many as before"),
    "released": (WORDS, "protected words from their own candidates, all others as before"),
    "unchanged": (WORDS, "the words as before"),
    "plain": ("plain words are privatized", "one for each plain token, from its own candidates"),
    "sound": ("a vector for each word", "finite multiples of the mechanism's grid, in float32"),
    "nearest": ("every word is the nearest to its vector", "the table's, found from it alone"),
    "own": ("every vector is that of its word", "the word's own, on the grid"),
}


def checked(
    release: Release, validated: Callable[[Sequence[Part]], list[Finding]]
) -> dict[str, Any]:
    """Check a release; return the gate's JSON.

    Args:
        release: the release.
        validated: returns a finding for each flag of each part.
    """
    parts = [
        _part("statement.json", release.facts()),
        Part("release", release.parts(), {"allowed": _contract(release)}),
    ]
    parts += [_part(where, rows) for copy in release.copies for where, rows in copy.checks()]
    shares: list[Replaced] = []
    sound = all(row[flag] for part in parts for row in part.rows for flag in part.flags)
    if sound:  # word by word needs as many words
        shares = [c.replaced() for c in bar(release.copies, "replay", len(release.copies))]
        within = [s.replay.passed for s in shares]
        rows = [{"example_id": f"seed-{k}", "within": each} for k, each in enumerate(within)]
        parts += [Part("release", rows, {"within": _share(release, shares)})]
        laws = [
            {"example_id": f"seed-{k}: {law.name}", "law": law.passed}
            for k, share in enumerate(shares)
            for law in share.laws
        ]
        parts += [_part("release", laws)]
    facts = {key: release.statement[key] for key in ("task", "method", "eta")}
    facts["sha256"] = files.sha256(release.folder)
    facts["replaced"] = [share.as_json(k) for k, share in enumerate(shares)]
    return report(validated(parts), gate="private", **facts)


def _contract(release: Release) -> tuple[str, str]:
    parts = release.parts_allowed()
    allowed = ", ".join(sorted({re.split("/|: ", part)[-1] for part in parts}))
    return "nothing but the release's files and columns", allowed


def _part(where: str, rows: Rows) -> Part:
    """Require that each flag is True in all rows."""
    return Part(
        where, rows, {flag: FLAGS[flag] for row in rows[:1] for flag in row if flag in FLAGS}
    )


def _share(release: Release, shares: list[Replaced]) -> tuple[str, str]:
    if release.is_original:
        return "no word is replaced", "none at eta inf"
    compared, words = sum(s.replay.words for s in shares), sum(s.words for s in shares)
    allowed = f"as in an independent replay of {compared} of {words} protected words, within its "
    return "replaced share", f"{allowed}interval (false alarms: 1e-6)"
