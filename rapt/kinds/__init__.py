"""Kinds of task, as the provider knows them: what a model is asked, and what it answers.

Each is a class of its own module. The user's half of a kind, a section of params.yaml, is in
rapt.tasks: what is here reads no text of a task, and may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rapt.kinds.base import Kind
from rapt.kinds.choose import Choose
from rapt.kinds.classify import Classify
from rapt.kinds.generate import Generate
from rapt.utils.registry import Registry

# Another package adds one by an entry point of this group.
KINDS: Registry[type[Kind]] = Registry(
    "rapt.kinds", Kind, lambda kind: str(kind.name), [Classify, Choose, Generate]
)


def kind_of(statement: Mapping[str, Any]) -> Kind:
    """Return the kind of the task that a release is of."""
    return KINDS[statement["kind"]](tuple(statement["labels"] or ()))
