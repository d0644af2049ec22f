"""Kinds of task, as the user knows them: sections of params.yaml, and what is made of raw text.

Each is a class of its own module. The provider's half of a kind, which reads no text of a task, is
in rapt.kinds.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny, ValidatorFunctionWrapHandler, WrapValidator

from rapt.param_types import type_of
from rapt.tasks.base import Task
from rapt.tasks.choose import Choose
from rapt.tasks.classify import Classify
from rapt.tasks.generate import Generate
from rapt.utils.registry import Registry

# Another package adds one by an entry point of this group.
TASKS: Registry[type[Task]] = Registry(
    "rapt.tasks", Task, partial(type_of, key="kind"), [Classify, Choose, Generate]
)


def _validated(value: Any, refuse: ValidatorFunctionWrapHandler) -> Any:
    """Validate a task by the class of its kind, classify if it names none."""
    if not isinstance(value, dict):
        return value if isinstance(value, Task) else refuse(value)
    name = value.get("kind", Classify.model_fields["kind"].default)
    if not isinstance(name, str) or name not in TASKS:
        return refuse(value)
    kind = TASKS[name]
    # A key of another kind that is null, or at its default, says nothing.
    others = {key: f.default for other in TASKS.data.values() for key, f in _fields(other, kind)}
    kept = {k: v for k, v in value.items() if k not in others or v not in (None, others[k])}
    return kind.model_validate(kept)


def _fields(other: type[Task], kind: type[Task]) -> list[tuple[str, Any]]:
    return [pair for pair in other.model_fields.items() if pair[0] not in kind.model_fields]


AnyTask = Annotated[
    Annotated[Classify | Choose | Generate, Field(discriminator="kind")],
    WrapValidator(_validated),
    SerializeAsAny(),
]
