from types import SimpleNamespace

import pytest

from rapt.serving.client import Remote, is_url
from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.utils.errors import RaptError
from tests.serving.conftest import PLAIN, Served


def test_an_address_is_told_from_a_folder() -> None:
    assert is_url("http://127.0.0.1:8000")
    assert is_url("https://provider")
    assert not is_url("models/adapters/http")


@pytest.mark.parametrize("answer", [[[0.5, 0.5]] * 2, [[1.0]], []])
def test_an_answer_about_something_else_is_one_line(
    model: Adapted, answer: list[list[float]]
) -> None:
    wrong_one = SimpleNamespace(contract=model.contract, answer=lambda texts: answer)
    line = r"got an answer for other texts or labels, expected"
    with Served(wrong_one) as wrong, pytest.raises(RaptError, match=line):
        Remote(wrong.url).answer([Text(words=["film"], segment=[0], plain=PLAIN)])
