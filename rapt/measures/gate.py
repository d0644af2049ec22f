"""The gate on a release: it is made again and compared; its JSON (docs/data.md, “Gates”)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rapt.measures.gate_checks import CheckedRelease, Rows
from rapt.results.gates import Finding, finding, report
from rapt.utils import files
from rapt.utils.progress import bar

MADE = "those that seed, mechanism and eta of params.yaml make of the text"
# What each flag of rapt.measures.gate_checks says, and what is allowed.
FLAGS = {
    "promised": ("the statement is that of params.yaml", "the same mechanism, eta and contents"),
    "allowed": ("nothing but the release's files", "its statement, splits and plain tokens"),
    "drawn": ("plain tokens are public words", "those that params.yaml draws"),
    "in_order": ("same examples", "the same ids in the same order"),
    "beside": ("labels, segments and spacing", "those of the text"),
    "words": ("words are made again", MADE),
    "vectors": ("vectors are made again", MADE),
    "vector": ("the vector of each text is made again", MADE),
    "segment": ("segments are made again", MADE),
    "plain": ("plain words are made again", "the sequence and the words that params.yaml makes"),
}


def checked(release: CheckedRelease, of_tables: list[Finding]) -> dict[str, Any]:
    """Make a release again and compare; return the gate's JSON.

    Args:
        release: the release.
        of_tables: what was found in its tables themselves.
    """
    findings = [*_findings("statement.json", release.facts()), *of_tables]
    findings += _findings("release", release.parts())
    for copy in bar(release.copies, "make it again", len(release.copies)):
        for where, rows in copy.checks():
            findings += _findings(where, rows)
    facts = {key: release.promised[key] for key in ("task", "method", "eta")}
    facts["sha256"] = files.sha256(release.folder)
    # Word by word needs as many words.
    sound = release.unit.aligned and all(one["passed"] for one in findings)
    facts["replaced"] = [copy.as_json() for copy in release.copies] if sound else []
    return report(findings, gate="private", **facts)


def _findings(where: str, rows: Rows) -> Iterator[Finding]:
    """Yield what was found by each flag of the rows, which should be True in all of them."""
    for flag in [name for name in rows[0] if name in FLAGS] if rows else ():
        failed = [row["example_id"] for row in rows if not row[flag]]
        yield finding(where, *FLAGS[flag], len(rows), len(failed), failed)
