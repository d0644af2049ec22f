"""Messages between user and provider, parsed strictly, as neither side trusts the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """A message: no type is converted, and no other field is allowed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_bytes="base64", val_json_bytes="base64"
    )


class Text(Message):
    """One text as a release holds it (docs/data.md).

    The words' noisy vectors, if the model was tuned on vectors, are little-endian float32. What is
    after each word only a model that writes is told.
    """

    words: list[str]
    segment: list[Annotated[int, Field(ge=0)]]
    plain: list[str]
    vectors: bytes | None = None
    space_after: list[bool] | None = None


class Answers(Message, ABC):
    """What a model of one kind of task answers to the texts of a query."""

    @classmethod
    @abstractmethod
    def of(cls, labels: Sequence[str], rows: Sequence[Any]) -> Self:
        """Build the message from the answer to each text."""

    @abstractmethod
    def rows(self, labels: Sequence[str]) -> Sequence[Any] | None:
        """Return the answer to each text; None: they are about other labels than these."""
