from pathlib import Path

import pytest

from rapt.serving.protocol import contract_of
from rapt.utils.errors import RaptError


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{}", "rapt.json: statement: got nothing, expected a value."),
        ("{", "rapt.json: got what is not JSON, expected JSON."),
        (None, "holds no rapt.json, expected the folder of a tuned seed"),
    ],
)
def test_a_wrong_adapter_is_one_line(tmp_path: Path, content: str | None, line: str) -> None:
    if content is not None:
        (tmp_path / "rapt.json").write_text(content)
    with pytest.raises(RaptError) as error:
        contract_of(tmp_path)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_the_nearest_adapter_is_named(adapter: Path) -> None:
    with pytest.raises(RaptError, match=r"Did you mean '.*cell/seed-0'\?"):
        contract_of(adapter.parent)
