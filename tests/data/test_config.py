"""Tasks of params.yaml whose parts do not go together."""

from typing import Any

import pytest
from pydantic import ValidationError

from rapt.data.config import Gate
from tests.data.conftest import make_task

FILES = {"train": "a.csv", "test": "b.csv"}
BINS = {"type": "bins", "column": "age", "least": 10, "most": 90, "count": 4, "edges": None}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"entities": "tags", "text_pair": "second"}, "got entities and text_pair, expected one"),
        ({"authors": ["who"]}, "got no rows.test, expected a number, as authors are divided"),
        ({"attributes": {"age": BINS | {"least": 90}}}, "got least 90, expected less than most"),
        ({"attributes": {"age": BINS | {"count": None}}}, "got neither of count and edges"),
        ({"attributes": {"age": BINS | {"edges": [50]}}}, "got both of count and edges"),
        (
            {"attributes": {"age": BINS | {"count": None, "edges": [50, 40]}}},
            "got edges 50, 40, expected ascending ones",
        ),
        (
            {
                "attributes": {"who": {"type": "most-frequent", "column": "who", "count": 2}},
                "authors": ["who"],
                "rows": {"train": None, "test": 1},
            },
            "got authors 'who', expected another column or null",
        ),
    ],
)
def test_what_does_not_go_together_is_told(changes: dict[str, Any], line: str) -> None:
    make_task(FILES)
    with pytest.raises(ValidationError, match=line):
        make_task(FILES, **changes)


def test_the_gates_limits_are_in_order() -> None:
    with pytest.raises(ValidationError, match="got min_characters 9, expected at most"):
        Gate(min_characters=9, max_characters=8)
