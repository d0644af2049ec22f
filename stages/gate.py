"""Check a task's examples before anything is made of them: `python -m stages.gate movies`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from great_expectations import expectations as gxe

from rapt import files, params
from rapt.data.prepare import SPLITS, identity
from stages import run
from stages.expectations import Rule, check, close, flagged

TEXTS = {"text": "texts", "text_pair": "second texts"}


def main(task: str) -> None:
    """Write reports/gates/raw/TASK.json; stop if an expectation failed."""
    p = params.load()
    paths = {split: f"data/raw/{task}/{split}.parquet" for split in SPLITS}
    tables = {split: files.read_parquet(path) for split, path in paths.items()}
    evaluation = set(_identities(tables["test"]))
    findings = []
    for split, table in tables.items():
        frame = table.to_pandas()
        rules = _rules(p.tasks[task], p.gate)
        if p.tasks[task].entities:
            frame["is_tagged"] = list(map(_is_tagged, frame["text"], frame["entities"]))
            rules.append(flagged("every word has its tag", "as many tags as words", "is_tagged"))
        if split == "train":
            frame["is_new"] = [key not in evaluation for key in _identities(table)]
            rules.append(flagged("no evaluation text in training", "no such row", "is_new"))
        findings += check(frame, split, rules)
    summary = files.read_json(f"data/raw/{task}/summary.json")
    close(
        f"reports/gates/raw/{task}.json",
        findings,
        gate="raw",
        task=task,
        read=summary["read"],
        dropped=summary["dropped"],
        rows={split: len(table) for split, table in tables.items()},
        sha256={split: files.sha256(path) for split, path in paths.items()},
    )


def _rules(task: params.Task, gate: params.Gate) -> list[Rule]:
    """What every split must hold."""
    rules = [
        Rule(
            "enough rows",
            f"at least {gate.min_rows}",
            gxe.ExpectTableRowCountToBeBetween(min_value=gate.min_rows),
        ),
        Rule(
            "example ids are unique",
            "each once",
            gxe.ExpectColumnValuesToBeUnique(column="example_id"),
        ),
    ]
    for column in ["text", "text_pair"] if task.text_pair else ["text"]:
        rules += _text_rules(column, gate)
    if task.label:
        classes = range(len(task.label.names))
        rules += _set_rules("label", "labels", list(classes), f"0 to {classes[-1]}")
    for name, attribute in (task.attributes or {}).items():
        rules += _attribute_rules(name, attribute)
    return rules


def _attribute_rules(name: str, attribute: params.Attribute) -> list[Rule]:
    """The values that params.yaml names, or as many as it says, in place of the data's own."""
    column = f"attribute_{name}"
    if isinstance(attribute, params.Values):
        values = attribute.values
        return _set_rules(column, f"{name} values", values, ", ".join(values))
    edges = attribute.edges if isinstance(attribute, params.Bins) else None
    most = len(edges) + 1 if edges else attribute.count
    few = gxe.ExpectColumnUniqueValueCountToBeBetween(column=column, min_value=2, max_value=most)
    return [
        _there(column, f"{name} values"),
        Rule(f"{name} values are few", f"2 to {most} different", few),
    ]


def _there(column: str, name: str) -> Rule:
    return Rule(f"{name} are there", "no null", gxe.ExpectColumnValuesToNotBeNull(column=column))


def _text_rules(column: str, gate: params.Gate) -> list[Rule]:
    name = TEXTS[column]
    low, high = gate.min_characters, gate.max_characters
    return [
        _there(column, name),
        Rule(
            f"{name} are not empty",
            "not only white space",
            gxe.ExpectColumnValuesToMatchRegex(column=column, regex=r"\S"),
        ),
        Rule(
            f"{name} have the right length",
            f"{low} to {high} characters",
            gxe.ExpectColumnValueLengthsToBeBetween(column=column, min_value=low, max_value=high),
        ),
    ]


def _set_rules(column: str, name: str, values: list[int] | list[str], allowed: str) -> list[Rule]:
    return [
        _there(column, name),
        Rule(
            f"{name} are of the set",
            allowed,
            gxe.ExpectColumnValuesToBeInSet(column=column, value_set=values),
        ),
    ]


def _is_tagged(text: str | None, tags: Sequence[str] | None) -> bool:
    return text is not None and tags is not None and len(text.split(" ")) == len(tags)


def _identities(table: pa.Table) -> list[str]:
    pairs = zip(table["text"].to_pylist(), table["text_pair"].to_pylist(), strict=True)
    return [identity(text, text_pair) for text, text_pair in pairs]


if __name__ == "__main__":
    run(main)
