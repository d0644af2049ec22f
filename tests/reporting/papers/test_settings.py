"""An experiment in the papers' terms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rapt.params import Params
from rapt.reporting.papers.layout import Experiment
from rapt.reporting.papers.settings import differences, model_name, paper_name
from tests.reporting.papers.conftest import planned

PAPER = Experiment(
    title="A paper",
    tasks=["sst2"],
    backbones=["bert"],
    embedding="glove",
    epochs=7,
    batch_size=32,
    max_tokens=128,
)


def test_models_and_tuners_are_named_as_the_papers_do(whole: Params) -> None:
    assert model_name("google-bert/bert-base-uncased@" + "0" * 40) == "bert-base-uncased"
    assert model_name("meta-llama/Meta-Llama-3-8B@" + "0" * 40) == "llama3-8b"
    assert paper_name(whole, "tuner", "lora") == "lora"
    assert paper_name(whole, "backbone", "bilstm") == "bilstm"


def test_what_differs_is_named_with_the_papers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = planned("demo", tmp_path, monkeypatch)
    told = differences(p, PAPER, "training")
    assert f"epochs {p.train.epochs} (7)" in told
    assert "table of words minilm (glove)" in told
    assert "seeds" not in told  # the paper does not state them
    assert "epochs" not in differences(p, PAPER, "words")


def test_where_nothing_differs_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = planned("demo", tmp_path, monkeypatch)
    own = replace(PAPER, embedding=paper_name(p, "embedding", p.sweep.embeddings[0]))
    assert differences(p, own, "words").startswith("Nothing that params.yaml says of it differs")
