"""Kind choose: answer a question by the letter of one of its choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from rapt.param_types import problem
from rapt.tasks.base import Expectations
from rapt.tasks.labelled import Labelled
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.data.sources import Split


class Choose(Labelled):
    """Answer a question by the letter of one of its choices."""

    kind: Literal["choose"]
    choices: str = Field(
        description="column of the list of a question's choices. The label's names are their "
        "letters"
    )

    @model_validator(mode="after")
    def _lettered(self) -> Choose:
        if not self.label:
            raise problem("got choices without a label, expected one, whose names are letters.")
        return self

    def read(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        """Return the question, its choices and the right letter of each row."""
        from rapt.data import read

        count = len(self.names or ())
        column = read.column(split.columns, self.choices, f"{key}.choices", split.where)
        choices = [[str(choice) for choice in each] if _is_list(each) else [] for each in column]
        if bad := sum(len(each) != count for each in choices):
            raise RaptError(
                f"{split.where}: {key}.choices: got something else in {bad} of {len(choices)} "
                f"rows, expected a list of {count} choices, as label.names has letters. Correct "
                "them."
            )
        return {"choices": choices, **super().read(split, key)}

    def expected(self, expect: Expectations, split: str) -> list[Any]:
        """Return that labels are letters, and choices there."""
        return [*super().expected(expect, split), *expect.there("choices", "choices")]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and None not in value
