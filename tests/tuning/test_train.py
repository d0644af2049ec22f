import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file
from transformers.models.bert.modeling_bert import BertLayer

from rapt.tuning import train as module
from rapt.tuning.config import BiLstm, Run
from rapt.tuning.inputs import read_split
from rapt.tuning.model import load, load_backbone
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import TOGETHER
from rapt.tuning.tuners import Full, PrefixTuning, PromptTuning, Tuner
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.conftest import reread


def test_learns_both_tasks(run: Run) -> None:
    result = train_seed(replace(run, train=run.train.model_copy(update={"epochs": 10})))
    assert result.metrics["accuracy"] > 0.9
    curves = result.curves
    assert curves["reconstruction_loss"][-1] < curves["reconstruction_loss"][0]
    assert set(curves) == {"task_loss", "reconstruction_loss", "reconstruction_accuracy"}
    # Guessing one of 7 for each of 3 plain words costs 3·ln 7.
    assert curves["reconstruction_loss"][1] < 3 * np.log(7)


def test_a_teacher_depends_on_no_text_of_the_others(run: Run, tmp_path: Path) -> None:
    """On no length, word or class of theirs: the law of private prediction rests on that."""
    train = run.train.model_copy(update={"epochs": 1, "shards": 2})
    run = replace(run, train=train, reconstruction=None)

    def teacher(row: int | None) -> str:
        """The digest of seed 0's adapter, after another text came to a row."""
        release = tmp_path / f"release-{row}"
        shutil.copytree(run.release, release)
        if row is not None:
            path = release / "seed-0/train.parquet"
            rows = files.read_parquet(path).to_pylist()
            rows[row] |= {"words": ["un"] * 9, "segment": [0] * 9, "label": 1 - rows[row]["label"]}
            files.write_parquet(path, pa.Table.from_pylist(rows))
        train_seed(replace(run, release=release, adapter=release / "adapter"))
        return files.sha256(release / "adapter")

    mine, others = train.tunes_on(96, 0), train.tunes_on(96, 1)
    assert teacher(None) == teacher(others[0]) != teacher(mine[0])
    contract = files.read_json(tmp_path / "release-None/adapter/rapt.json")
    assert contract["shard"] == {"cell": "movies-tiny", "number": 0, "of": 2, "texts": 48}


def test_an_adapter_is_read_from_safetensors_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PEFT would read pickled weights in their place, and ask the hub where there are none."""
    train_seed(run)
    whole = load_file(run.adapter / "adapter_model.safetensors")
    (run.adapter / "adapter_model.safetensors").unlink()
    for pickled in (False, True):
        if pickled:
            torch.save(whole, run.adapter / "adapter_model.bin")
        with pytest.raises(RaptError, match=r"got no adapter_model.safetensors in it, expected "):
            load(run.adapter, run.backbone)


@pytest.mark.parametrize("tuner", [None, PromptTuning(tokens=3, learning_rate=0.1)])
def test_pairs_are_tuned_and_the_adapter_says_so(
    run: Run, tmp_path: Path, tuner: PromptTuning | None
) -> None:
    release = shutil.copytree(run.release, tmp_path / "pairs")
    for path in release.glob("seed-0/t*.parquet"):
        table = files.read_parquet(path)
        segments = pa.array([[0, 0, 1, 1]] * len(table), table.schema.field("segment").type)
        place = table.schema.get_field_index("segment")
        files.write_parquet(path, table.set_column(place, "segment", segments))
    told = replace(run, release=release, tuner=tuner or run.tuner, reconstruction=None)
    result = train_seed(told)
    assert json.loads((run.adapter / "rapt.json").read_text())["segments"] == 2
    tokenizer = load_backbone(run.backbone)[1]
    split = read_split(release / "seed-0/test.parquet", tokenizer, run.train.max_tokens)
    assert {kind for row in split.types for kind in row} == {0, 1}
    assert reread(told) == pytest.approx(result.metrics["accuracy"])
    assert result.metrics["accuracy"] > 0.6


@pytest.mark.parametrize("cap", [None, 0.5])
def test_activations_that_are_computed_again_change_nothing(run: Run, cap: float | None) -> None:
    """Not even dropout, nor where two losses ask for a gradient of the same activations."""
    assert run.reconstruction
    run = replace(
        run,
        tuner=run.tuner.model_copy(update={"dropout": 0.3}),
        reconstruction=run.reconstruction.model_copy(update={"cap": cap}),
    )
    expected, weights = train_seed(run), load_file(run.adapter / "adapter_model.safetensors")
    again = replace(run, train=run.train.model_copy(update={"gradient_checkpointing": True}))
    layers: list[bool] = []

    def noted(layer: BertLayer, *given: Any, **named: Any) -> Any:
        layers.append(layer.gradient_checkpointing)
        return forward(layer, *given, **named)

    forward = BertLayer.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BertLayer, "forward", noted)
        found = train_seed(again)
    assert any(layers)
    assert found.metrics == expected.metrics
    for name, curve in expected.curves.items():
        assert found.curves[name] == pytest.approx(curve, rel=1e-5)
    for name, weight in load_file(run.adapter / "adapter_model.safetensors").items():
        torch.testing.assert_close(weight, weights[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("tuner", "encoder", "what"),
    [(PrefixTuning(tokens=3), None, "prefix-tuning"), (Full(), BiLstm(hidden=4), "bilstm")],
)
def test_a_model_that_cannot_compute_activations_again_is_one_line(
    run: Run, tuner: Tuner, encoder: BiLstm | None, what: str
) -> None:
    train = run.train.model_copy(update={"gradient_checkpointing": True})
    with pytest.raises(RaptError, match=f"gradient_checkpointing: got true with .*{what}"):
        train_seed(replace(run, train=train, tuner=tuner, encoder=encoder))


def test_products_of_tuning_alone_are_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "device", lambda: torch.device("cuda"))
    before = torch.backends.cuda.matmul.fp32_precision
    with module.tf32():
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before


@pytest.mark.parametrize("together", [1, 5])
def test_a_loss_that_is_no_number_stops_the_run(
    run: Run, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that it names is the first of those that were read together."""
    monkeypatch.setitem(TOGETHER, "cpu", together)
    wild = replace(run, tuner=run.tuner.model_copy(update={"learning_rate": 1e30}))
    with pytest.raises(
        RaptError,
        match=r"^movies-tiny, seed 0, step 3 of 36: got a loss that is not a number, "
        r"expected .* Lower learning_rate \(1e\+30\)\.$",
    ):
        train_seed(wild)
