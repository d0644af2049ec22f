"""Pydantic's problems as lines: the key, what was given, what is allowed, the nearest match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rapt.errors import not_allowed


def lines(error: ValidationError, content: Any, root: type[BaseModel]) -> list[str]:
    """A line for each problem, each once.

    Args:
        error: what pydantic raised.
        content: what it was given.
        root: the model that it was to fit.
    """
    found = [line for problem in error.errors() for line in _lines(problem, content, root)]
    return list(dict.fromkeys(found))


def _lines(problem: Mapping[str, Any], content: Any, root: type[BaseModel]) -> list[str]:
    """The lines for one of pydantic's problems."""
    if problem["type"] == "references":
        return problem["ctx"]["lines"].split("\n")
    keys = [k for k in _keys(problem["loc"], content) if k != "[key]"]
    key = ".".join(str(k) for k in keys)
    given, context = problem["input"], problem.get("ctx", {})
    match problem["type"]:
        case "extra_forbidden":
            *where, name = keys
            return [
                not_allowed(
                    ".".join(map(str, where)) or "params.yaml", name, _fields(where, content, root)
                )
            ]
        case "missing":
            return [f"{key}: missing, {_hint(keys, content, root)}"]
        case "model_type":
            names = sorted(_fields(keys, content, root))
            null = ", or null" if _nullable(keys, content, root) else ""
            return [f"{key}: {given!r} given, allowed: a section of {', '.join(names)}{null}"]
        case "literal_error":
            return [not_allowed(key, given, re.findall(r"'([^']*)'", context["expected"]))]
        case "union_tag_invalid":
            names = re.findall(r"'([^']*)'", context["expected_tags"])
            return [not_allowed(f"{key}.type", context["tag"], names)]
        case "union_tag_not_found":
            return [f"{key}.type: missing, it says which kind this is"]
        case "rapt":
            if isinstance(given, Mapping | list | BaseModel):
                return [f"{key}: {problem['msg']}"]
            return [f"{key}: {given!r} {problem['msg']}"]
    shown = "a section" if isinstance(given, Mapping) else repr(given)
    return [f"{key}: {shown} given, allowed: {problem['msg'].removeprefix('Input should be ')}"]


def _keys(loc: Iterable[Any], content: Any) -> list[Any]:
    """Pydantic's location without the tags of unions, which do not stand in the file."""
    keys: list[Any] = []
    for part in loc:
        if isinstance(content, Mapping) and part not in content and part == content.get("type"):
            continue
        keys.append(part)
        if isinstance(content, Mapping):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
    return keys


def _models(keys: Iterable[Any], content: Any, root: type[BaseModel]) -> list[type[BaseModel]]:
    """The models that may stand at a place in the file, by the `type` where it names one."""
    models: list[type[BaseModel]] = [root]
    for key in keys:
        fields = [m.model_fields[key].annotation for m in models if key in m.model_fields]
        models = list(_models_in(fields)) if fields else models  # else: a name the user chose
        content = content.get(key) if isinstance(content, Mapping) else None
        kind = content.get("type") if isinstance(content, Mapping) else None
        models = [m for m in models if kind in _kinds(m)] or models
    return models


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    """The `type`s of a section that is one of several kinds."""
    return get_args(model.model_fields["type"].annotation) if "type" in model.model_fields else ()


def _models_in(annotations: Iterable[Any]) -> Iterable[type[BaseModel]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        yield from _models_in(get_args(annotation))


def _fields(keys: Iterable[Any], content: Any, root: type[BaseModel]) -> set[str]:
    return {name for model in _models(keys, content, root) for name in model.model_fields}


def _hint(keys: list[Any], content: Any, root: type[BaseModel]) -> str:
    null = " (null where it does not apply)" if _nullable(keys, content, root) else ""
    return f"nothing has a default{null}"


def _nullable(keys: list[Any], content: Any, root: type[BaseModel]) -> bool:
    annotations = [
        m.model_fields[keys[-1]].annotation
        for m in _models(keys[:-1], content, root)
        if keys[-1] in m.model_fields
    ]
    return any(type(None) in get_args(a) for a in annotations)
