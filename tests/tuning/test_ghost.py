"""Ghost clipping: norms and sums of single texts' gradients, and models where it is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from rapt.tuning.config import Run
from rapt.tuning.ghost import Ghost, proved
from rapt.tuning.strategies import Clipping, Private
from rapt.utils.errors import RaptError
from tests.tuning.families import cell
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run
from tests.tuning.test_private import gradients, made, noiseless, split_of


class Small(nn.Module):
    """Words, a matrix, a norm, and a head on the mean of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(5, 4, padding_idx=1), nn.Embedding(99, 4)
        self.middle, self.norm = nn.Linear(4, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids: Tensor) -> Tensor:
        read = self.words(ids) + self.places(torch.arange(ids.shape[1])[None])
        answers: Tensor = self.head(self.norm(self.middle(read).tanh()).mean(1))
        return answers


@pytest.mark.parametrize("length", [1, 2, 40])
def test_norms_and_sums_are_those_of_plain_gradients(length: int) -> None:
    """Of short and long texts, with words that come again and such that never learn."""
    torch.manual_seed(0)
    model, ids = Small(), torch.randint(5, (3, length))
    ghost, scales = Ghost(model), torch.tensor([2.0, 0.5, 1.0])
    ghost.begin(3)
    found = ghost.read(model(ids).square().sum(1).mean())
    alone = [
        torch.autograd.grad(model(row[None]).square().sum(), [*model.parameters()]) for row in ids
    ]
    squares = torch.stack([sum(g.double().square().sum() for g in own) for own in alone])
    torch.testing.assert_close(found.squares, squares, rtol=1e-5, atol=0)
    for weight, *each in zip(model.parameters(), *alone, strict=True):
        expected = torch.einsum("n,n...->...", scales, torch.stack(each))
        torch.testing.assert_close(found.weighted(scales)[weight], expected, rtol=1e-5, atol=1e-5)


class Doubled(nn.Linear):
    def forward(self, read: Tensor) -> Tensor:
        return 2 * super().forward(read)


TIED = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
TIED[1].weight = TIED[0].weight  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (TIED, "1 (Linear)"),
        (nn.Sequential(Doubled(4, 4)), "0 (Doubled)"),
        (nn.Sequential(nn.LSTM(4, 4)), "0 (LSTM)"),
        (nn.Sequential(nn.BatchNorm1d(4, affine=False)), "0 (BatchNorm1d)"),
    ],
)
def test_a_layer_that_is_not_known_is_refused(model: nn.Module, name: str) -> None:
    with pytest.raises(RaptError) as error:
        Ghost(model)
    assert f"got weights of {name}, expected" in str(error.value)


@pytest.mark.parametrize("times", [1, 2])
def test_a_layer_that_reads_twice_or_all_texts_as_one_is_refused(times: int) -> None:
    layer, texts = nn.Linear(4, 4), 5 - times
    ghost = Ghost(layer)
    ghost.begin(texts)
    read = torch.ones(3, 4)
    for _ in range(times):
        read = layer(read)
    with pytest.raises(RaptError, match=rf"reads \(3, 4\) of {texts} texts, expected one that"):
        ghost.read(read.mean())


@pytest.fixture
def whole(run: Run, folders: dict[str, Path]) -> Run:
    return cell(run, folders["bert"], "full")


@pytest.mark.parametrize("clipping", ["flat", "automatic", "stable", "quantile"])
def test_the_sum_is_that_of_one_by_one(whole: Run, clipping: Clipping) -> None:
    """Within 1e-5 of its norm, and so is what moves the norm, for every clipping."""
    trainer = made(whole, Private(epsilon=100, delta=1e-3, clip=0.5, clipping=clipping))
    trainer.gradient = strategy = noiseless(trainer)
    heard: list[float] = []
    strategy.follow = heard.append  # type: ignore[method-assign]
    assert strategy.ghost and strategy.at_a_time is None
    together = gradients(trainer, split_of(whole), [*range(7)])
    strategy.ghost, strategy.at_a_time = None, 1
    alone = gradients(trainer, split_of(whole), [*range(7)])
    assert together.keys() == alone.keys()
    differences = [together[name] - alone[name] for name in alone]
    norm = float(get_total_norm(alone.values()))
    assert 0 < float(get_total_norm(differences)) < 1e-5 * norm  # 0 would be of one path alone
    assert heard[1:] == heard[:1]


def mixed(_: Any, given: Any, output: Any) -> Any:
    """As a layer that reads all texts of a batch at once."""
    states = output.last_hidden_state
    output.last_hidden_state = states + states.mean(0)
    return output


def read_beside(backbone: Any, given: Any, output: Any) -> Any:
    """As DeBERTa reads its table of positions: the weights, and not by their layer."""
    rows = backbone.embeddings.word_embeddings.weight[:4].sum()
    output.last_hidden_state = output.last_hidden_state * (1 + rows)
    return output


@pytest.mark.parametrize("hook", [mixed, read_beside])
def test_what_hooks_do_not_see_is_noticed_before_training(
    whole: Run, hook: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, and no hook stays."""
    trainer = made(whole, Private(epsilon=8, delta=1e-3))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    ghost = proved(trainer)
    assert ghost and torch.equal(before, torch.get_rng_state())
    ghost.remove()
    trainer.model.backbone.register_forward_hook(hook)
    assert proved(trainer) is None
    assert (
        "tiny: private training takes one text at a time. private: got" in capsys.readouterr().err
    )
    hooked = [layer for layer in trainer.parts.modules() if layer._forward_hooks]
    assert hooked == [trainer.model.backbone]  # by this test


def test_authors_and_checkpointing_are_computed_one_by_one(whole: Run) -> None:
    authors = [row % 9 for row in range(64)]
    for unit, again in (("author", False), ("text", True)):
        train = whole.train.model_copy(update={"gradient_checkpointing": again})
        how = Private.model_validate({"epsilon": 8, "delta": 1e-3, "unit": unit})
        trainer = made(replace(whole, train=train), how)
        strategy: Any = trainer.run.gradient.prepared(trainer, 64, authors)
        assert strategy.ghost is None and strategy.at_a_time == 1
