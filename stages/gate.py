"""Check the examples of all tasks before anything is made of them: `python -m stages.gate`."""

from typing import Any

from great_expectations import expectations as gxe

from rapt import params, paths
from rapt.data.config import Attribute, Bins, Gate, Values
from rapt.data.prepare import SPLITS, comparable, identities
from rapt.results.gates import report, write
from rapt.tasks.base import Task
from rapt.utils import files
from stages import run
from stages.expectations import Rule, check, equal, in_set, texts_in, there


def main() -> None:
    """Write reports/gates/raw/TASK.json for each task; stop if an expectation failed."""
    p = params.load()
    reports = {name: _report(name, p.tasks[name], p.gate) for name in p.sweep.tasks}
    write(paths.GATES / "raw", reports)


def _report(name: str, task: Task, gate: Gate) -> dict[str, Any]:
    of = {split: paths.raw(name) / f"{split}.parquet" for split in SPLITS}
    tables = {split: files.read_parquet(path) for split, path in of.items()}
    findings = []
    for split, table in tables.items():
        rules = _rules(task, gate, split)
        if split == "train":
            known = gxe.ExpectColumnValuesToNotBeInSet(
                column="identity", value_set=identities(tables["test"], task.compared)
            )
            rules.append(Rule("no evaluation text in training", "no such row", known))
        findings += check(comparable(table, task.compared), split, rules)
    summary = files.read_json(paths.raw(name) / "summary.json")
    facts = {key: summary[key] for key in ("read", "dropped")}
    facts["rows"] = {split: len(table) for split, table in tables.items()}
    facts["sha256"] = {split: files.sha256(path) for split, path in of.items()}
    return report(findings, gate="raw", task=name, **facts)


def _rules(task: Task, gate: Gate, split: str) -> list[Rule]:
    length = gate.min_characters, gate.max_characters
    enough = gxe.ExpectTableRowCountToBeBetween(min_value=gate.min_rows)
    unique = gxe.ExpectColumnValuesToBeUnique(column="example_id")
    rules = [Rule("enough rows", f"at least {gate.min_rows} (gate.min_rows)", enough)]
    rules += [Rule("example ids are unique", "each once", unique)]
    expect = Expect(*length)
    rules += expect.texts("text", "texts")
    rules += task.expected(expect, split)
    for name, attribute in task.inferred.items():
        of_values = _attribute_rules(f"attribute_{name}", f"{name} values", attribute)
        rules += of_values[1:] if task.is_tuned else of_values  # a row to tune on may have no value
    return rules


class Expect:
    """What a kind of task may expect of its columns, as rules of Great Expectations."""

    there, in_set, equal = staticmethod(there), staticmethod(in_set), staticmethod(equal)

    def __init__(self, low: int, high: int) -> None:
        """Take the allowed length of a text."""
        self._length = low, high

    def texts(self, column: str, name: str) -> list[Rule]:
        """Expect texts, none missing or empty, of the allowed length."""
        return texts_in(column, name, *self._length)


def _attribute_rules(column: str, name: str, attribute: Attribute) -> list[Rule]:
    """The values that params.yaml names, or as many as it says, in place of the data's own."""
    if isinstance(attribute, Values):
        values = attribute.values
        return in_set(column, name, values, ", ".join(values))
    edges = attribute.edges if isinstance(attribute, Bins) else None
    most = len(edges) + 1 if edges else attribute.count
    few = gxe.ExpectColumnUniqueValueCountToBeBetween(column=column, min_value=2, max_value=most)
    return [*there(column, name), Rule(f"{name} are few", f"2 to {most} different", few)]


if __name__ == "__main__":
    run(main)
