"""The whole params of an experiment, defaults included, and the JSON Schema of params.yaml."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from rapt.params import Params

WIDTH = 100


def as_yaml(params: Params) -> str:
    """All keys with their help: a params.yaml that says the same."""
    return "\n".join(_lines(params, params.model_dump(mode="json"), "", set())) + "\n"


def as_json(params: Params) -> str:
    """All keys, as the stage `validate` writes them."""
    return json.dumps(params.model_dump(mode="json"), indent=2) + "\n"


def schema() -> str:
    """The JSON Schema of params.yaml, by which an editor completes keys and shows help."""
    return json.dumps(Params.model_json_schema(), indent=1, ensure_ascii=False) + "\n"


def _lines(section: Any, content: dict[str, Any], pad: str, told: set[type]) -> Iterator[str]:
    """The lines of a section; the help of a class stands where it is first used."""
    fields = type(section).model_fields if isinstance(section, BaseModel) else {}
    helped = {} if type(section) in told else fields
    told.add(type(section))
    for key, value in content.items():
        inner = getattr(section, key) if fields else section[key]
        if key in helped:
            of_class = inner.__doc__ if isinstance(inner, BaseModel) else None
            text = " ".join((helped[key].description or of_class or "").split())
            yield from (f"{pad}# {line}" for line in textwrap.wrap(text, WIDTH - len(pad) - 2))
        if value and isinstance(value, dict):
            yield f"{pad}{_leaf(key)}:"
            yield from _lines(inner, value, f"{pad}  ", told)
        else:
            yield f"{pad}{_leaf(key)}: {_leaf(value)}"


def _leaf(value: Any) -> str:
    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.width = True, 4096
    yaml.dump(value, out)
    return out.getvalue().removesuffix("...\n").strip()
