"""Pydantic's errors as one-line messages: the key, the value, the expectation, a suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rapt.utils.errors import not_allowed, one_of


def lines(error: ValidationError, content: Any, root: type[BaseModel]) -> list[str]:
    """Format each problem of content that is no valid `root` as a line, without duplicates."""
    found = [line for problem in error.errors() for line in _lines(problem, content, root)]
    # A key that is missing, and stands there under a wrong name, is one mistake.
    near = [re.fullmatch(r"(.+?): got .* Did you mean '(.+)'\?", line) for line in found]
    meant = {f"{m[1]}.{m[2]}".removeprefix("params.yaml.") for m in near if m}
    return [
        line
        for line in dict.fromkeys(found)
        if ": missing, " not in line or line.partition(":")[0] not in meant
    ]


def _lines(problem: Mapping[str, Any], content: Any, root: type[BaseModel]) -> list[str]:
    """Format one of pydantic's problems as lines."""
    if problem["type"] == "references":
        return problem["ctx"]["lines"].split("\n")
    keys = [k for k in _keys(problem["loc"], content) if k != "[key]"]
    key = ".".join(str(k) for k in keys)
    given, context = problem["input"], problem.get("ctx", {})
    match problem["type"]:
        case "extra_forbidden":
            *where, name = keys
            allowed = {name for m in _models(where, content, root) for name in m.model_fields}
            return [not_allowed(".".join(map(str, where)) or "params.yaml", name, allowed)]
        case "missing":
            fields = _fields(keys, content, root)  # none: of another package's class
            expected = _expected(fields[0]) if fields else "a value"
            return [f"{key}: missing, expected {expected}."]
        case "model_type":
            section = _section(_models(keys, content, root))
            fields = _fields(keys, content, root)
            is_nullable = any(type(None) in get_args(field.annotation) for field in fields)
            null = ", or null" if is_nullable else ""
            return [f"{key}: got {given!r}, expected {section}{null}."]
        case "literal_error":
            return [not_allowed(key, given, re.findall(r"'([^']*)'", context["expected"]))]
        case "union_tag_invalid":
            names = re.findall(r"'([^']*)'", context["expected_tags"])
            tag = context["discriminator"].strip("'")
            return [not_allowed(f"{key}.{tag}", context["tag"], names)]
        case "union_tag_not_found":
            kinds = {kind for m in _models(keys, content, root) for kind in _kinds(m)}
            return [f"{key}.type: missing, expected {one_of(kinds)}."]
        case "rapt":
            return [f"{key}: {problem['msg']}"]
        case "too_short":
            expected = f"{context['min_length']} or more entries"
        case "string_pattern_mismatch":
            expected = f"a match of {context['pattern']}"
        case "dict_type" | "model_attributes_type":
            expected = "a section"
        case _:
            expected = problem["msg"].removeprefix("Input should be ")
            expected = re.sub("^(?=greater|less)", "a number ", expected)
    shown = "a section" if isinstance(given, Mapping) else repr(given)
    return [f"{key}: got {shown}, expected {expected}."]


def _keys(loc: Sequence[Any], content: Any) -> list[Any]:
    """Return pydantic's location without the tags of unions, which are not keys of the file."""
    keys: list[Any] = []
    for part, following in zip_longest(loc, loc[1:]):
        is_type = isinstance(content, Mapping) and part == content.get("type")
        # A key may have the tag's name: an attribute of type `values` has `values`.
        if is_type and (part not in content or following in content):
            continue
        keys.append(part)
        if isinstance(content, Mapping):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
    return keys


def _models(keys: Iterable[Any], content: Any, root: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the models allowed at a place in the file, narrowed down by its `type` or `kind`."""
    models: list[type[BaseModel]] = [root]
    for key in keys:
        fields = [m.model_fields[key].annotation for m in models if key in m.model_fields]
        models = list(_models_in(fields)) if fields else models  # else: a name the user chose
        content = content.get(key) if isinstance(content, Mapping) else None
        is_entry = not fields  # which has a default kind; a mapping of entries has none
        models = [m for m in models if _is_meant(m, content, is_entry)] or models
    return models


def _is_meant(model: type[BaseModel], content: Any, is_entry: bool) -> bool:
    """Whether a section has the model's `type` or `kind`, by which several are told apart."""
    if not isinstance(content, Mapping):
        return False
    tags = [(name, model.model_fields.get(name)) for name in ("type", "kind")]
    return any(
        content.get(name, tag.default if is_entry else None) in get_args(tag.annotation)
        for name, tag in tags
        if tag
    )


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return a model's values of `type`; empty if it has no such field."""
    return get_args(model.model_fields["type"].annotation) if "type" in model.model_fields else ()


def _models_in(annotations: Iterable[Any]) -> Iterable[type[BaseModel]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        yield from _models_in(get_args(annotation))


def _fields(keys: list[Any], content: Any, root: type[BaseModel]) -> list[FieldInfo]:
    """Return the fields that the last key may be."""
    models = _models(keys[:-1], content, root)
    return [m.model_fields[keys[-1]] for m in models if keys[-1] in m.model_fields]


def _section(models: Iterable[type[BaseModel]]) -> str:
    return f"a section of {', '.join(sorted({name for m in models for name in m.model_fields}))}"


def _expected(field: FieldInfo) -> str:
    """Describe the expected value of a required key, with the key's help."""
    kind: Any = get_origin(field.annotation) or field.annotation
    if kind is Literal:
        return one_of(get_args(field.annotation))
    if sections := list(_models_in([field.annotation])) if kind is not dict else []:
        return _section(sections)
    named = {list: "a list", dict: "a section"}.get(kind, "a value")
    return f"{named} ({field.description})" if field.description else named
