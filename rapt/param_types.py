"""Types of params.yaml that more than one module has fields of."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PositiveFloat,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import CoreSchema

from rapt.utils.errors import wrong_eta
from rapt.utils.registry import Registry

# A level in the place of an η: the percentage of protected words that is replaced, or that a
# Bayesian attacker recovers at most, or of releases that are linked to their originals at most. The
# stage `levels` finds the η of each method.
LEVEL = re.compile(r"(replaced|recovered|linked)-([1-9]\d?)")


class Target(NamedTuple):
    """A share of the protected words, `replaced` or `recovered`, or of the releases, `linked`."""

    measure: str
    share: float


# Which words of a task get noise, where the method gives noise to them.
Protect = Literal["words", "entities"]


class Section(BaseModel):
    """A section of params.yaml: what it lacks has the default of its class."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def level(eta: str) -> Target | None:
    """Return what a level such as replaced-50 says; None: it is an η."""
    found = LEVEL.fullmatch(eta)
    return Target(found[1], int(found[2]) / 100) if found else None


def problem(line: str) -> PydanticCustomError:
    """A validation error whose text is the whole line but for the key."""
    return PydanticCustomError("rapt", "{line}", {"line": line})


def unique(values: list[Any]) -> list[Any]:
    """A list that holds each entry once."""
    if twice := sorted({str(v) for v in values if values.count(v) > 1}):
        raise problem(f"got {', '.join(twice)} twice, expected each entry once.")
    return values


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
        name = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")
        hint = f" Did you mean {name!r}?" if name else ""
        expected = "lower-case letters, digits and single hyphens"
        raise problem(f"got {value!r}, expected {expected}.{hint}")
    return value


def _eta(value: Any) -> str:
    """η as the text that stands in paths: '75', '62.5'; or a level, 'replaced-50'."""
    if isinstance(value, str) and LEVEL.fullmatch(value):
        return value
    if value == "inf" or value == math.inf:
        raise problem(
            f"{wrong_eta(value)} Text without noise is the baseline `clean` of every sweep."
        )
    measures = ("replaced", "recovered", "linked")
    if isinstance(value, dict) or (isinstance(value, str) and value.startswith(measures)):
        raise problem(
            f"got {value!r}, expected a level from replaced-1 to replaced-99, or recovered, or "
            "linked, or a number."
        )
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise problem(wrong_eta(value))
    if isinstance(value, float) and value.is_integer():
        raise problem(f"got {value}, expected {int(value)}.")
    return str(value)


def numbers(values: list[str]) -> list[str]:
    """Numbers alone, none of them a level."""
    if given := next((value for value in values if level(value) is not None), None):
        raise problem(f"got {given}, expected numbers alone.")
    return values


def _number(eta: str) -> int | float | str:
    if LEVEL.fullmatch(eta):
        return eta
    return int(eta) if eta.isdigit() else float(eta)


def _revision(value: str) -> str:
    """A model: package:NAME/FOLDER, a folder, or owner/name@revision."""
    if value.startswith("package:") or "@" not in value:
        return value
    if not re.fullmatch(r"[^@\s]+/[^@\s]+@[0-9a-f]{40}", value):
        raise problem(f"got {value!r}, expected owner/name@REVISION, a revision of 40 hex digits.")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise problem(f"got {value!r}, expected 64 hex digits.")
    return value


Model = Annotated[str, AfterValidator(_revision)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[list[Name], AfterValidator(unique)]
Level = Annotated[str, Field(pattern=f"^{LEVEL.pattern}$")]
Eta = Annotated[
    str,
    BeforeValidator(_eta, json_schema_input_type=PositiveFloat | Level),
    # In YAML and JSON it is the number that it was.
    PlainSerializer(_number, when_used="json"),
]
Etas = Annotated[list[Eta], Field(min_length=1), AfterValidator(unique)]


def _typed(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


class _Typed(BeforeValidator):
    """Says the same in the JSON Schema."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        entry = handler(core)
        kinds = handler.resolve_ref_schema(entry)
        names = kinds.get("discriminator", {}).get("mapping") or kinds["properties"]["type"]["enum"]
        return {"anyOf": [{"enum": sorted(names)}, entry]}


# An entry that is told apart by its `type`; the name of the type alone takes all its defaults.
Typed = _Typed(_typed)


def type_of(section: type[BaseModel], key: str = "type") -> str:
    """Return the only `type`, or other key, that a section's class takes."""
    (name,) = get_args(section.model_fields[key].annotation)
    return str(name)


def or_of(registry: Registry[Any]) -> WrapValidator:
    """Let a union of sections take those of other packages, too, by their `type`."""

    def validated(value: Any, own: ValidatorFunctionWrapHandler) -> Any:
        name = value.get("type") if isinstance(value, dict) else None
        if not isinstance(name, str) or name in registry.data or name not in registry:
            return own(value)
        return registry[name].model_validate(value)

    return WrapValidator(validated)
