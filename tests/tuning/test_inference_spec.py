"""The contract for inference, beside an adapter."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rapt.tuning.config import Run
from rapt.tuning.inference_spec import fitting
from rapt.tuning.train import train_seed


@given(st.lists(st.lists(st.integers(1, 5), max_size=6), min_size=2), st.integers(0, 40))
def test_what_fits_a_prompt_is_all_that_fits(sizes: list[list[int]], room: int) -> None:
    question, *choices = sizes
    at, *kept = fitting(sizes, room)
    assert all(part.start is None for part in kept)
    rest = sum(sum(choice[part]) for choice, part in zip(choices, kept, strict=True))
    asked = sum(question[at])
    assert rest + asked <= room
    whole = all(len(choice) == part.stop for choice, part in zip(choices, kept, strict=True))
    assert whole == (sum(map(sum, choices)) <= room)
    if at.start:  # one more word of the question would be too much
        assert rest + asked + question[at.start - 1] > room


def test_an_adapter_says_what_both_sides_need_and_nothing_of_the_texts_or_this_machine(
    run: Run,
) -> None:
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
        "decoding": None,
    }
    assert statement["table_sha256"] == "0" * 64
    assert statement["categories"] == ["noun", "verb"]
    assert "documents" not in statement
    config = json.loads((run.adapter / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny"
    assert config["target_modules"] == ["query", "value"]
    assert str(run.backbone) not in json.dumps(config)
