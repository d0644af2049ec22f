"""The BiLSTM on a model's input embeddings: tokens and activations, and the trained weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rapt.tuning import backbones, loading
from rapt.tuning.bilstm import BiLstmModel
from rapt.tuning.config import BiLstm, Run
from rapt.tuning.model import adapt, load_backbone
from rapt.tuning.train import train_seed
from rapt.tuning.tuners import Full, Tuner
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.families import BILSTM, TUNERS
from tests.tuning.test_backbones import lstm_alone


@pytest.fixture
def run(run: Run) -> Run:
    return replace(run, encoder=BILSTM, tuner=Full(learning_rate=0.02))


def made(folder: Path, shape: BiLstm = BILSTM) -> BiLstmModel:
    torch.manual_seed(1)
    model, _ = load_backbone(folder, encoder=shape)
    assert isinstance(model, BiLstmModel)
    return model.eval()


def test_what_is_not_attended_to_is_not_there(backbone: Path) -> None:
    """At any position, also in the model's own forward pass."""
    model = made(backbone)
    tokens = torch.tensor([[9, 5, 9, 6, 7, 9], [4, 5, 6, 7, 8, 9]])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1]])
    hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(hidden[0, [1, 3, 4]], lstm_alone(backbone, model, [5, 6, 7]))
    torch.testing.assert_close(hidden[1], model(tokens[1:]).last_hidden_state[0])
    assert not hidden[0, [0, 2, 5]].any()


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
    model = loading.load_model(run.backbone)
    assert embeddings.equal(model.get_input_embeddings().weight)


def test_another_seed_gives_another_encoder(run: Run, tmp_path: Path) -> None:
    once = replace(run, train=run.train.model_copy(update={"epochs": 1}))
    for k in (0, 1):
        train_seed(replace(once, k=k, adapter=tmp_path / str(k)))
    assert files.sha256(tmp_path / "0") != files.sha256(tmp_path / "1")


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
