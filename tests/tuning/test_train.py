import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from peft import PeftModel
from transformers import AutoModel, AutoTokenizer

from rapt import files
from rapt.errors import RaptError
from rapt.files import sha256
from rapt.tuning.config import Run
from rapt.tuning.inputs import collate, read_split
from rapt.tuning.model import adapt, load, load_backbone
from rapt.tuning.seeds import train_all
from rapt.tuning.train import Trainer, predict, train


def trainer(run: Run) -> Trainer:
    torch.manual_seed(0)
    backbone, tokenizer = load_backbone(run.backbone)
    made = Trainer(run, adapt(backbone, run.tuner), 2, tokenizer.pad_token_id)
    made.reconstruct(torch.tensor([6, 0, 3]), 7)
    return made


def test_learns_both_tasks(run: Run) -> None:
    result = train(replace(run, loop=replace(run.loop, epochs=10)))
    assert result["metrics"]["accuracy"] > 0.9
    curves = result["curves"]
    assert curves["reconstruction_loss"][-1] < curves["reconstruction_loss"][0]
    assert set(curves) == {"task_loss", "reconstruction_loss", "reconstruction_accuracy"}
    # Guessing one of 7 for each of 3 plain words costs 3·ln 7.
    assert curves["reconstruction_loss"][0] < 3 * np.log(7)


def test_the_adapter_serves_without_this_project(run: Run) -> None:
    result = train(run)
    assert {p.name for p in run.adapter.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "head.safetensors",
    }
    plain = PeftModel.from_pretrained(AutoModel.from_pretrained(run.backbone), run.adapter)
    assert plain.peft_config["default"].base_model_name_or_path == "tiny"
    backbone, tokenizer = load_backbone(run.backbone)
    split = read_split(run.release / "seed-0/test.parquet", tokenizer, run.loop.max_tokens)
    predicted = predict(load(run.adapter, backbone), split, tokenizer.pad_token_id, 7)
    accuracy = (predicted == torch.tensor(split.labels)).double().mean().item()
    assert accuracy == result["metrics"]["accuracy"]


def test_equal_runs_give_equal_bytes_side_by_side_or_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests, results = [], []
    for workers in ("1", "2"):
        monkeypatch.setenv("RAPT_WORKERS", workers)
        folder = tmp_path / workers
        results.append(train_all([replace(run, k=k, adapter=folder / str(k)) for k in (0, 1)]))
        digests.append(sha256(folder))
    assert digests[0] == digests[1]
    assert results[0] == results[1]
    assert sha256(tmp_path / "1/0") != sha256(tmp_path / "1/1")


def test_losses_are_the_definition(run: Run) -> None:
    """The sum over plain tokens of −log p at each one's own activation, the mean over texts."""
    made = trainer(run)
    made.model.eval()
    tokenizer = AutoTokenizer.from_pretrained(run.backbone)
    split = read_split(run.release / "seed-0/train.parquet", tokenizer, run.loop.max_tokens)
    batch = collate(split, [0, 1, 2], 0)
    losses = made._losses(batch)
    hidden = made.model.activations(batch)
    expected, task = 0.0, 0.0
    for b in range(3):
        for i, target in enumerate([6, 0, 3]):
            own = [j for j, place in enumerate(split.plain[b]) if place == i]
            logits = made.head.down(made.head.up(hidden[b, own].mean(0)))  # type: ignore[union-attr]
            expected -= logits.log_softmax(0)[target].item() / 3
        text = [j for j, own in enumerate(split.text[b]) if own]
        logits = made.model.head(hidden[b, text].mean(0))
        task -= logits.log_softmax(0)[split.labels[b]].item() / 3
    assert losses["reconstruction_loss"].item() == pytest.approx(expected, rel=1e-5)
    assert losses["task_loss"].item() == pytest.approx(task, rel=1e-5)


def test_padding_changes_nothing(run: Run) -> None:
    made = trainer(run)
    made.model.eval()
    tokenizer = AutoTokenizer.from_pretrained(run.backbone)
    split = read_split(run.release / "seed-0/train.parquet", tokenizer, run.loop.max_tokens)
    split.tokens[1] += split.tokens[1][1:]  # a longer neighbour
    for values in (split.types, split.plain, split.text):
        values[1] += values[1][1:]  # type: ignore[operator]
    alone, beside = collate(split, [0], 0), collate(split, [0, 1], 0)
    logits = [made.model.classify(made.model.activations(b), b)[0] for b in (alone, beside)]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)


def test_only_the_adapter_and_the_heads_learn(run: Run) -> None:
    made = trainer(run)
    learning = {name for name, w in made.model.named_parameters() if w.requires_grad}
    assert all("lora_" in name or name.startswith("head.") for name in learning)
    assert any("lora_" in name for name in learning)


def test_a_loss_that_is_no_number_stops_the_run(run: Run) -> None:
    wild = replace(run, tuner=replace(run.tuner, learning_rate=1e30))
    with pytest.raises(
        RaptError, match=r"movies-tiny, seed 0, step \d+ of 36: the loss is not a number"
    ):
        train(wild)


def test_the_adapters_config_names_no_folder_of_this_machine(run: Run) -> None:
    train(replace(run, reconstruction=None))
    config = json.loads((run.adapter / "adapter_config.json").read_text())
    assert config["target_modules"] == ["query", "value"]
    assert str(run.backbone) not in json.dumps(config)


def test_texts_too_long_for_the_backbone_are_one_line(run: Run, tmp_path: Path) -> None:
    release = tmp_path / "release"
    shutil.copytree(run.release, release)
    table = pq.read_table(release / "seed-0/train.parquet").to_pydict()
    table["words"][0], table["segment"][0] = ["good"] * 100, [0] * 100
    files.write_parquet(release / "seed-0/train.parquet", pa.table(table))
    long = replace(run, release=release, loop=replace(run.loop, max_tokens=99))
    with pytest.raises(RaptError, match=r"train.max_tokens: 1\d\d tokens .*allowed: 64"):
        train(long)
