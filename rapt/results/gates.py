"""The JSON of a gate (docs/data.md, “Gates”): example ids, never text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rapt.utils import files
from rapt.utils.errors import RaptError

# An expectation of one split: expectation, split, passed, checked, failed, allowed, examples.
Finding = dict[str, Any]
EXAMPLES = 20  # ids of offending rows in a finding
SHOWN = 5  # of them in a message


def finding(
    split: str, name: str, allowed: str, checked: int, failed: int, offenders: Sequence[str]
) -> Finding:
    """Return what one expectation found in a split: ids of some offending rows, and no value."""
    return {
        "expectation": name,
        "split": split,
        "passed": not failed,
        "checked": checked,
        "failed": failed,
        "allowed": allowed,
        "examples": list(offenders[:EXAMPLES]),
    }


def report(findings: list[Finding], **facts: Any) -> dict[str, Any]:
    """Return a gate's JSON: the findings of all splits, and facts as gate, task, sha256."""
    passed = all(finding["passed"] for finding in findings)
    return {**facts, "passed": passed, "expectations": findings}


def write(folder: Path, reports: Mapping[str, dict[str, Any]]) -> None:
    """Write FOLDER/NAME.json for each report, and nothing else; then stop if one failed.

    Raises:
        RaptError: an expectation failed.
    """
    with files.atomic(folder) as scratch:
        scratch.mkdir()
        for name, content in reports.items():
            files.write_json(scratch / f"{name}.json", content)
    stop({f"{folder}/{name}.json": content for name, content in reports.items()})


def stop(reports: Mapping[str, dict[str, Any]]) -> None:
    """Stop if an expectation of the reports, by path, failed, with a line for each that did.

    Raises:
        RaptError: an expectation failed.
    """
    failures = [
        _line(path, finding)
        for path, content in reports.items()
        for finding in content["expectations"]
        if not finding["passed"]
    ]
    if failures:
        raise RaptError("\n".join(failures))


def _line(path: str, finding: Finding) -> str:
    ids, failed = finding["examples"], finding["failed"]
    found = f"got {finding['checked']}"  # by a rule on the whole table
    if ids:
        shown = ", ".join(ids[:SHOWN]) + (", …" if failed > SHOWN else "")
        found = f"got {failed} of {finding['checked']} that fail ({shown})"
    where = f"{path}: {finding['split']}: {finding['expectation']}"
    return f"{where}: {found}, expected {finding['allowed']}."
