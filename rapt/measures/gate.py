"""The gate on a release: which checks must hold, and its JSON (docs/data.md, “Gates”)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rapt.measures.gate_checks import Release, Rows
from rapt.results.gates import Finding, Part, report
from rapt.utils import files
from rapt.utils.progress import bar

MADE = "those that seed, mechanism and eta of params.yaml make of the text"
# What each flag of rapt.measures.gate_checks says, and what is allowed.
FLAGS = {
    "promised": ("the statement is that of params.yaml", "the same mechanism, eta and contents"),
    "drawn": ("plain tokens are public words", "those that params.yaml draws"),
    "in_order": ("same examples", "the same ids in the same order"),
    "beside": ("labels, segments and spacing", "those of the text"),
    "words": ("words are made again", MADE),
    "vectors": ("vectors are made again", MADE),
    "plain": ("plain words are made again", "the sequence and the words that params.yaml makes"),
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
    for copy in bar(release.copies, "make it again", len(release.copies)):
        parts += [_part(where, rows) for where, rows in copy.checks()]
    sound = all(row[flag] for part in parts for row in part.rows for flag in part.flags)
    facts = {key: release.promised[key] for key in ("task", "method", "eta")}
    facts["sha256"] = files.sha256(release.folder)
    # Word by word needs as many words.
    facts["replaced"] = [copy.as_json() for copy in release.copies] if sound else []
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
