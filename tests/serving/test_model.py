"""An adapted model as it is opened and asked."""

import json
from pathlib import Path

import pytest

from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.utils.errors import RaptError


def test_weights_that_are_missing_or_others_are_one_line(adapter: Path, tmp_path: Path) -> None:
    contract = (adapter / "rapt.json").read_text()
    (tmp_path / "rapt.json").write_text(contract)
    with pytest.raises(RaptError, match=r"got FileNotFoundError on loading it with .*, expected"):
        Adapted(tmp_path)
    sha256 = json.loads(contract)["backbone_sha256"]
    (tmp_path / "rapt.json").write_text(contract.replace(sha256, "0" * 64))
    with pytest.raises(RaptError, match=rf"sha256 {sha256}, expected 000"):
        Adapted(tmp_path)


def test_a_text_too_long_for_the_backbone_is_one_line(model: Adapted) -> None:
    long = Text(words=["film"], segment=[0], plain=[" ".join(["film"] * 100), "film", "film"])
    with pytest.raises(RaptError, match=r"texts: got 10\d tokens .* in one text, expected"):
        model.answer([long])
