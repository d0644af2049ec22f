"""Great Expectations behind the gates' own JSON, which holds example ids and never text.

Great Expectations' result holds the offending values, so none of it is written, logged or raised;
what leaves this module is a list of plain findings (docs/data.md, “Gates”):

    rules = [
        *in_set("label", "labels", [0, 1], "0 or 1"),
        flagged("same number of words", "as many as before", "same_length"),
    ]
    findings = check(rows, "train", rules)  # rows have an example_id
    write("reports/gates/raw", {"movies": report(findings, gate="raw", task="movies", ...)})

Here and not in rapt/, which imports without Great Expectations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

from rapt.utils import files
from rapt.utils.errors import RaptError

Finding = dict[str, Any]
EXAMPLES = 20
SHOWN = 5


@dataclass(frozen=True)
class Rule:
    """One expectation of a split."""

    # What is expected, as a reader says it: "texts are not empty".
    name: str
    # What is allowed: "1 to 10000 characters". Never taken from the data.
    allowed: str
    expectation: Expectation


def flagged(name: str, allowed: str, column: str) -> Rule:
    """A rule on what the caller has found out itself: a column that is True where all is well."""
    return Rule(name, allowed, gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[True]))


def there(column: str, name: str) -> Rule:
    """A rule that no value of a column is missing."""
    return Rule(f"{name} are there", "no null", gxe.ExpectColumnValuesToNotBeNull(column=column))


def in_set(column: str, name: str, values: Sequence[int] | Sequence[str], said: str) -> list[Rule]:
    """The rules that no value of a column is missing, and that all are some of these."""
    some = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values))
    return [there(column, name), Rule(f"{name} are of the set", said, some)]


def check(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]], split: str, rules: Iterable[Rule]
) -> list[Finding]:
    """Check one split.

    Args:
        rows: Each with its `example_id`.
        split: The split's name.
        rules: What to expect of them.

    Returns:
        For each rule: expectation, split, passed, checked (rows), failed (rows), allowed, and at
        most 20 example ids. A rule on the whole table fails with 1 and without ids.
    """
    batch = _context().data_sources.pandas_default.read_dataframe(pd.DataFrame(rows))
    how = {"result_format": "COMPLETE", "unexpected_index_column_names": ["example_id"]}
    findings = []
    for rule in rules:
        result = batch.validate(rule.expectation, result_format=how)
        findings.append(_finding(rule, split, bool(result.success), result.result))
    return findings


@cache
def _context() -> EphemeralDataContext:
    """One for the process: to make one takes as long as a rule."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def report(findings: list[Finding], **facts: Any) -> dict[str, Any]:
    """A gate's JSON.

    Args:
        findings: What `check` returned, of all splits.
        facts: What else stands in it: gate, task, sha256, ...
    """
    passed = all(finding["passed"] for finding in findings)
    return {**facts, "passed": passed, "expectations": findings}


def write(folder: Path, reports: Mapping[str, dict[str, Any]]) -> None:
    """Write FOLDER/NAME.json for each report, and nothing else; then stop if one failed.

    Raises:
        RaptError: An expectation failed.
    """
    with files.atomic(folder) as scratch:
        scratch.mkdir()
        for name, content in reports.items():
            files.write_json(scratch / f"{name}.json", content)
    stop({f"{folder}/{name}.json": content for name, content in reports.items()})


def stop(reports: Mapping[str, dict[str, Any]]) -> None:
    """Stop if an expectation failed, with a line for each that did.

    Args:
        reports: By their path, already written, so that the user can read what failed.

    Raises:
        RaptError: An expectation failed.
    """
    failures = [
        _line(path, finding)
        for path, content in reports.items()
        for finding in content["expectations"]
        if not finding["passed"]
    ]
    if failures:
        raise RaptError("\n".join(failures))


def _finding(rule: Rule, split: str, passed: bool, result: dict[str, Any]) -> Finding:
    if not result:  # Great Expectations stumbled; why, it says with values of the data
        raise RaptError(f"{split}: the expectation {rule.name!r} could not be checked")
    offenders = [row["example_id"] for row in result.get("unexpected_index_list") or []]
    by_row = "element_count" in result
    return {
        "expectation": rule.name,
        "split": split,
        "passed": passed,
        "checked": int(result["element_count"] if by_row else result["observed_value"]),
        "failed": int(result["unexpected_count"] if by_row else not passed),
        "allowed": rule.allowed,
        "examples": offenders[:EXAMPLES],
    }


def _line(path: str, finding: Finding) -> str:
    ids, failed = finding["examples"], finding["failed"]
    found = f"got {finding['checked']}"  # by a rule on the whole table
    if ids:
        shown = ", ".join(ids[:SHOWN]) + (", …" if failed > SHOWN else "")
        found = f"failed for {failed} of {finding['checked']} rows ({shown})"
    where = f"{path}: {finding['split']}: {finding['expectation']}"
    return f"{where}: {found}, expected {finding['allowed']}."
