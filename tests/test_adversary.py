"""What CAPE's adversary hides: evidence/adversary.py, on vectors of which two numbers tell all."""

import json

import pytest
import torch

from evidence import adversary
from evidence.adversary import Reversed, Split, attacked, cell
from tests.conftest import ROOT


@pytest.mark.parametrize("weight", [0.0, 1.5])
def test_the_gradient_is_turned_round(weight: float) -> None:
    inputs = torch.tensor([1.0, 2.0], requires_grad=True)
    (Reversed.apply(inputs, weight) * torch.tensor([3.0, 4.0])).sum().backward()
    assert inputs.grad is not None
    assert inputs.grad.tolist() == [-weight * 3, -weight * 4]


def test_an_adversary_that_is_beaten_is_no_fresh_attacker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four numbers one tells the class, one the attribute, which the layers still have."""
    monkeypatch.setattr(adversary, "EPOCHS", 40)
    torch.manual_seed(0)
    splits = []
    for _ in range(2):
        task, private = torch.randint(2, (2, 512))
        vectors = torch.randn(512, 4)
        vectors[:, 0] += 4.0 * task
        vectors[:, 1] += 4.0 * private
        splits.append(Split(vectors, task, private))
    train, test = splits
    assert attacked(train, test, lambda vectors: vectors, 0) > 0.9
    found = cell(train, test, 0.5, 0)
    assert found["task"] > 0.9
    assert found["adversary"] < 0.8 < found["hidden"]


def test_the_file_has_what_the_page_shows() -> None:
    """The release is one for all λ, and what the layers tell of the attribute falls with it."""
    content = json.loads((ROOT / "evidence/adversary.json").read_text())
    clean = content["cells"]["gender"]["inf"]
    assert clean["release"] > content["majority"]["gender"] + 0.03
    assert clean["1.5"]["hidden"] > clean["1.5"]["adversary"] + 0.03
