"""The contract for inference, beside an adapter."""

import json

from rapt.tuning.config import Run
from rapt.tuning.train import train_seed


def test_the_contract_holds_what_both_sides_need_and_nothing_of_the_texts(run: Run) -> None:
    train_seed(run)
    contract = json.loads((run.adapter / "rapt.json").read_text())
    statement = contract.pop("statement")
    assert contract.pop("plain")[0] == ["likely", "film", "unlikely"]
    assert contract == {
        "labels": ["no", "yes"],
        "kind": "classify",
        "segments": 1,
        "backbone": "tiny",
        "backbone_sha256": None,
        "quantize": None,
        "precision": "float32",
        "max_tokens": 16,
        "denoiser": None,
        "held_out": 0.0,
    }
    assert statement["table_sha256"] == "0" * 64
    assert statement["categories"] == ["noun", "verb"]
    assert "documents" not in statement
