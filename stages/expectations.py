"""Great Expectations behind the gates' own JSON, which holds example ids and never text.

Great Expectations' result holds the offending values, so none of it is written, logged or raised;
what leaves this module is a list of plain findings (docs/data.md, “Gates”):

    rules = [
        Rule("labels are classes", "0 or 1", gxe.ExpectColumnValuesToBeInSet(...)),
        flagged("same number of words", "as many as before", "same_length"),
    ]
    findings = check(frame, "train", rules)  # frame has a column example_id
    close("reports/gates/raw/movies.json", findings, gate="raw", task="movies", sha256=...)

Here and not in rapt/, which imports without Great Expectations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

from rapt import files
from rapt.errors import RaptError

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


def check(frame: pd.DataFrame, split: str, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Check one split.

    Args:
        frame: The rows, with a column `example_id`.
        split: The split's name.
        rules: What to expect of them.

    Returns:
        For each rule: expectation, split, passed, checked (rows), failed (rows), allowed, and at
        most 20 example ids. A rule on the whole table fails with 1 and without ids.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    asset = context.data_sources.add_pandas("split").add_dataframe_asset(split)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    how = {"result_format": "COMPLETE", "unexpected_index_column_names": ["example_id"]}
    findings = []
    for rule in rules:
        result = batch.validate(rule.expectation, result_format=how)
        findings.append(_finding(rule, split, bool(result.success), result.result))
    return findings


def close(path: str, findings: list[dict[str, Any]], **facts: Any) -> None:
    """Write a gate's JSON; stop if an expectation failed, with a line for each that did.

    The JSON is written either way, so that the user can read what failed.

    Args:
        path: Of the JSON.
        findings: What `check` returned, of all splits.
        facts: What else stands in the JSON: gate, task, sha256, ...

    Raises:
        RaptError: An expectation failed.
    """
    failures = [finding for finding in findings if not finding["passed"]]
    files.write_json(path, {**facts, "passed": not failures, "expectations": findings})
    if failures:
        raise RaptError("\n".join(_line(path, failure) for failure in failures))


def _finding(rule: Rule, split: str, passed: bool, result: dict[str, Any]) -> dict[str, Any]:
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


def _line(path: str, finding: dict[str, Any]) -> str:
    ids, failed = finding["examples"], finding["failed"]
    found = f"{finding['checked']} found"  # by a rule on the whole table
    if ids:
        shown = ", ".join(ids[:SHOWN]) + (", …" if failed > SHOWN else "")
        found = f"failed for {failed} of {finding['checked']} rows ({shown})"
    where = f"{path}: {finding['split']}: {finding['expectation']}"
    return f"{where}: {found}, allowed: {finding['allowed']}"
