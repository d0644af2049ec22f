"""Types of params.yaml that more than one module has fields of."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def problem(line: str) -> PydanticCustomError:
    """A validation error whose text is the whole line but for the key."""
    return PydanticCustomError("rapt", "{line}", {"line": line})


def _revision(value: str) -> str:
    """A model: package:NAME/FOLDER, a folder, or owner/name@revision."""
    if value.startswith("package:") or "@" not in value:
        return value
    if not re.fullmatch(r"[^@\s]+/[^@\s]+@[0-9a-f]{40}", value):
        raise problem("given, allowed: owner/name@REVISION with a revision of 40 hex digits")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise problem("given, allowed: 64 hex digits")
    return value


Model = Annotated[str, AfterValidator(_revision)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
