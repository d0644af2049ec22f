"""Great Expectations behind the gates' own JSON (rapt/results/gates.py).

Great Expectations' result holds the offending values, so none of it is written, logged or raised.
Here and not in rapt/, which imports without Great Expectations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

from rapt.results.gates import Finding
from rapt.utils.errors import RaptError

EXAMPLES = 20  # ids of offending rows in a finding


@dataclass(frozen=True)
class Rule:
    """An expectation of a split: "texts are not empty", and what it allows, never from the data."""

    name: str
    allowed: str
    expectation: Expectation


def flagged(name: str, allowed: str, column: str) -> Rule:
    """Expect a column to be True, which the caller has computed."""
    return Rule(name, allowed, gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[True]))


def there(column: str, name: str) -> Rule:
    """Expect no value of a column to be missing."""
    return Rule(f"{name} are there", "no null", gxe.ExpectColumnValuesToNotBeNull(column=column))


def in_set(column: str, name: str, values: Sequence[int | str], allowed: str) -> list[Rule]:
    """Expect every value of a column, none missing, to be among `values`."""
    some = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(values))
    return [there(column, name), Rule(f"{name} are of the set", allowed, some)]


def check(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]], split: str, rules: Iterable[Rule]
) -> list[Finding]:
    """Return a finding for each rule on the rows of a split; each row has an `example_id`."""
    batch = _context().data_sources.pandas_default.read_dataframe(pd.DataFrame(rows))
    how = {"result_format": "COMPLETE", "unexpected_index_column_names": ["example_id"]}
    results = [(rule, batch.validate(rule.expectation, result_format=how)) for rule in rules]
    return [_finding(rule, split, bool(found.success), found.result) for rule, found in results]


@cache
def _context() -> gx.data_context.EphemeralDataContext:
    """Make the process's context, which takes as long as a rule."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def _finding(rule: Rule, split: str, passed: bool, result: dict[str, Any]) -> Finding:
    if not result:  # Great Expectations failed; its message has values of the data
        raise RaptError(
            f"{split}: got no result of the expectation {rule.name!r}, expected one. Look for "
            "values of another type."
        )
    offenders = [row["example_id"] for row in result.get("unexpected_index_list") or []]
    by_row = "element_count" in result  # else of the whole table: it fails once, without ids
    return {
        "expectation": rule.name,
        "split": split,
        "passed": passed,
        "checked": int(result["element_count"] if by_row else result["observed_value"]),
        "failed": int(result["unexpected_count"] if by_row else not passed),
        "allowed": rule.allowed,
        "examples": offenders[:EXAMPLES],
    }
