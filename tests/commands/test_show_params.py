"""`rapt params`: the effective params, and the JSON Schema beside params.yaml."""

import json
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.commands import show_params
from tests.conftest import ROOT

SCHEMA = json.loads((ROOT / "params.schema.json").read_text())
FILES = [*(ROOT / "presets").glob("*.yaml"), ROOT / "tests/every_section.yaml"]


def errors(content: Any) -> list[jsonschema.ValidationError]:
    return list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(content))


def test_the_schema_is_that_of_the_classes() -> None:
    assert (ROOT / "params.schema.json").read_text() == show_params.schema(), (
        "rapt params --schema > params.schema.json"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_editor_underlines_nothing_in_a_valid_file(path: Any) -> None:
    content = YAML(typ="safe").load(path)
    assert not errors(content)
    assert not errors(json.loads(show_params.as_json(params.validate(content))))


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("methods", {"mechanism": "t3t"}),
        ("methods", {"mechanism": "pct2t", "categories": "nuon"}),
        ("tuners", "loar"),
        ("tuners", {"type": "lora", "rank": 3}),
        ("attacks", "nearest"),
        ("denoisers", "posterior"),
    ],
)
def test_an_editor_underlines_a_mistake(section: str, entry: Any) -> None:
    content = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")
    content[section]["mine"] = entry
    assert errors(content)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_printed_says_the_same(path: Any) -> None:
    p = params.load(path)
    text = show_params.as_yaml(p)
    assert params.validate(YAML(typ="safe").load(text)) == p
    assert max(map(len, (line for line in text.splitlines() if "#" in line))) <= 100


def test_every_key_is_printed_with_its_help() -> None:
    lines = show_params.as_yaml(params.load(ROOT / "params.yaml")).splitlines()
    assert lines[lines.index("  weight_decay: 0.0") - 1] == "  # of AdamW"
    assert lines[lines.index("gate:") - 1] == "# Limits of the gate on raw data."
