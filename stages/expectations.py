"""Great Expectations behind the gates' own JSON (rapt/results/gates.py).

Great Expectations' result holds the offending values, so none of it is written, logged or raised.
Here and not in rapt/, which imports without Great Expectations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

from rapt.results.gates import Finding, finding
from rapt.utils.errors import RaptError


@dataclass(frozen=True)
class Rule:
    """An expectation of a split: "texts are not empty", and what it allows, never from the data."""

    name: str
    allowed: str
    expectation: Expectation


def there(column: str, name: str) -> list[Rule]:
    """Expect no value of a column to be missing."""
    null = gxe.ExpectColumnValuesToNotBeNull(column=column)
    return [Rule(f"{name} are there", "no null", null)]


def in_set(column: str, name: str, values: Sequence[int | str], allowed: str) -> list[Rule]:
    """Expect every value of a column, none missing, to be among `values`."""
    some = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values))
    return [*there(column, name), Rule(f"{name} are of the set", allowed, some)]


def equal(column: str, other: str, name: str, allowed: str) -> list[Rule]:
    """Expect the values of two columns to be equal."""
    same = gxe.ExpectColumnPairValuesToBeEqual(column_A=column, column_B=other)
    return [Rule(name, allowed, same)]


def texts_in(column: str, name: str, low: int, high: int) -> list[Rule]:
    """Expect texts in a column, none missing or empty, each of `low` to `high` characters."""
    blank = gxe.ExpectColumnValuesToMatchRegex(column=column, regex=r"\S")
    long = gxe.ExpectColumnValueLengthsToBeBetween(column=column, min_value=low, max_value=high)
    keys = " (gate.min_characters, gate.max_characters; a task's cut_words cuts texts)"
    return [
        *there(column, name),
        Rule(f"{name} are not empty", "not only white space", blank),
        Rule(f"{name} have the right length", f"{low} to {high} characters{keys}", long),
    ]


def check(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]], split: str, rules: Iterable[Rule]
) -> list[Finding]:
    """Return a finding for each rule on the rows of a split; each row has an `example_id`."""
    findings = []
    for rule, passed, result in _validated(pd.DataFrame(rows), split, rules):
        offenders = [row["example_id"] for row in result.get("unexpected_index_list") or []]
        for names in result.get("details", {}).get("mismatched", {}).values():  # of columns
            offenders += names
        by_row = "element_count" in result  # else of the whole table: it fails once, without ids
        seen = result["element_count" if by_row else "observed_value"]
        checked = len(seen) if isinstance(seen, list) else int(seen)
        failed = int(result["unexpected_count"]) if by_row else len(offenders) or int(not passed)
        findings.append(finding(split, rule.name, rule.allowed, checked, failed, offenders))
    return findings


def _validated(
    frame: pd.DataFrame, split: str, rules: Iterable[Rule]
) -> Iterator[tuple[Rule, bool, dict[str, Any]]]:
    """Yield each rule, whether it holds, and the result, from one validation of all rules."""
    rules = list(rules)
    for number, rule in enumerate(rules):  # the results come in an order of their own
        rule.expectation.meta = {"rule": number}
    batch = _frames().get_batch(batch_parameters={"dataframe": frame})
    shown = {"result_format": "COMPLETE", "unexpected_index_column_names": ["example_id"]}
    found = batch.validate(
        gx.ExpectationSuite(name="rules", expectations=[rule.expectation for rule in rules]),
        result_format=shown,
    )
    results = {}
    for one in found.results:
        assert one.expectation_config and one.expectation_config.meta
        results[one.expectation_config.meta["rule"]] = one
    for number, rule in enumerate(rules):
        one = results[number]
        if not one.result:  # Great Expectations failed; its message has values of the data
            raise RaptError(
                f"{split}: got no result of the expectation {rule.name!r}, expected one. Look for "
                "values of another type."
            )
        yield rule, bool(one.success), one.result


@cache
def _frames() -> BatchDefinition[Any]:
    """Make the process's definition of a batch, which takes as long as a rule."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    return asset.add_batch_definition_whole_dataframe("whole")
