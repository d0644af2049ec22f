"""The papers' names."""

from __future__ import annotations

from rapt.params import Params
from rapt.reporting.papers.settings import backbone_name, model_name, tuner_name


def test_models_and_tuners_are_named_as_the_papers_do(whole: Params) -> None:
    assert model_name("google-bert/bert-base-uncased@" + "0" * 40) == "bert-base-uncased"
    assert model_name("meta-llama/Meta-Llama-3-8B@" + "0" * 40) == "llama3-8b"
    assert tuner_name(whole, "lora") == "lora"
    assert backbone_name(whole, "bilstm") == "bilstm"
