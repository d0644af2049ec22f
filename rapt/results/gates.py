"""The JSON of a gate (docs/data.md, “Gates”): example ids, never text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapt.utils import files
from rapt.utils.errors import RaptError

# An expectation of one split: expectation, split, passed, checked, failed, allowed, examples.
Finding = dict[str, Any]
SHOWN = 5  # example ids in a message


@dataclass(frozen=True)
class Part:
    """Rows of one split, each with an `example_id`, and flags that should be True.

    Attributes:
        split: its name.
        rows: all of them with the same flags.
        flags: the name of each flag's expectation and what it allows, by the flag.
    """

    split: str
    rows: Sequence[Mapping[str, Any]]
    flags: Mapping[str, tuple[str, str]]


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
        found = f"got {failed} of {finding['checked']} rows that fail ({shown})"
    where = f"{path}: {finding['split']}: {finding['expectation']}"
    return f"{where}: {found}, expected {finding['allowed']}."
