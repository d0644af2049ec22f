from pathlib import Path

import pytest

from rapt.privacy import levels
from rapt.utils.errors import RaptError


def test_a_level_that_was_not_searched_for_is_one_line(empty: Path) -> None:
    with pytest.raises(
        RaptError, match=r"tiny.json: got no η of replaced-20, expected one\. Try: "
    ):
        levels.eta_of("tiny", {"type": "t2t"}, None, "replaced-20")


def test_a_statement_says_the_number_and_the_level() -> None:
    assert levels.facts("75", 75.0) == {"eta": "75"}
    assert levels.facts("replaced-50", 68.47) == {"eta": "68.47", "level": "replaced-50"}
