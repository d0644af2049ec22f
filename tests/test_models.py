"""Models are loaded whole, from safetensors, without code of their own; what the hub is asked."""

import io
import json
import re
from pathlib import Path

import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, BertModel

from rapt import models
from rapt.tuning.loading import load_model
from rapt.utils.errors import RaptError

REVISION = "0123456789abcdef0123456789abcdef01234567"
WANTED = {
    *("config.json", "merges.txt", "model-00001-of-00001.safetensors"),
    *("model.safetensors.index.json", "tokenizer.model"),
}
# Pickles, code, and weights in formats that are not read.
OTHERS = {
    *("flax_model.msgpack", "handler.py", "model.onnx", "modeling_custom.py"),
    *("pooling/weights.pt", "pytorch_model.bin", "rust_model.ot", "scheduler.pkl", "tf_model.h5"),
    *("training_args.bin", "weights.ckpt", "weights.pickle", "weights.pth"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    BertModel(config).save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def drop(folder: Path, part: str) -> None:
    """Leave the weights of this part out of a model's file."""
    path = folder / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(path).items() if part not in name}
    save_file(kept, path, {"format": "pt"})


def test_a_weight_that_is_not_there_is_not_drawn(folder: Path) -> None:
    drop(folder, "layer.1.output.dense")
    named = rf"^model {re.escape(str(folder))}: "
    line = named + r"got files without 2 of its weights, as .*layer\.1\..*, expected .*$"
    for load in (load_model, lambda path: models.load(AutoModel, path)):
        with pytest.raises(RaptError, match=line):
            load(folder)


def test_a_model_may_lack_its_pooler_and_what_is_to_be_learned(folder: Path) -> None:
    whole = models.load(AutoModel, folder)
    drop(folder, "pooler")
    part = models.load(AutoModel, folder)
    for name, weight in part.named_parameters():
        assert name.startswith("pooler") or torch.equal(weight, whole.get_parameter(name))
    drop(folder, "layer.1")
    models.load(AutoModel, folder, fresh=["encoder.layer.1."])


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_code_of_a_model_is_never_run(
    folder: Path, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\nclass Own: from_pretrained = classmethod(lambda *_, **k: 0)\n"
    (folder / "own.py").write_text(code)
    names = {name: "own.Own" for name in ("AutoConfig", "AutoModel")}
    own = {"model_type": "own", "auto_map": names}
    tokens = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (folder / "config.json").write_text(json.dumps(own))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    named = rf"^model {re.escape(str(folder))}: "
    line = named + r"got one that needs code of its own, expected one that Transformers knows\.$"
    for load in (models.tokenizer, lambda path: models.load(AutoModel, path)):
        with pytest.raises(RaptError, match=line):
            load(folder)
    assert not ran.exists()


@pytest.mark.parametrize("fetch", [True, False])
def test_the_hub_gives_one_revision_and_neither_pickles_nor_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetch: bool
) -> None:
    def snapshot(
        repo_id: str,
        *,
        revision: str | None = None,
        allow_patterns: list[str] | str | None = None,
        ignore_patterns: list[str] | str | None = None,
        local_files_only: bool = False,
    ) -> str:
        assert local_files_only is not fetch
        folder = tmp_path / repo_id / (revision or "main")
        folder.mkdir(parents=True)
        for name in filter_repo_objects(
            WANTED | OTHERS, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns
        ):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    model = f"owner/name@{REVISION}"
    found = models.folder(model, None) if fetch else models.here(model)
    assert found == tmp_path / "owner/name" / REVISION
    assert {str(path.relative_to(found)) for path in found.rglob("*.*")} == WANTED
