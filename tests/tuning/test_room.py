"""How many seeds have room on a card: by what is free, and by what a seed takes."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from rapt.tuning import room
from rapt.tuning.config import Run
from rapt.tuning.model import load_backbone
from rapt.tuning.room import CONTEXT, bytes_of_seed, seeds_that_fit
from rapt.tuning.tuners import Full, Lora, PromptTuning


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A card with so many free bytes."""

    def set_to(count: int) -> None:
        monkeypatch.setattr(room, "device", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: (count, 4 * count))

    monkeypatch.delenv("RAPT_PER_GPU", raising=False)
    return set_to


def test_half_of_what_is_free_is_taken(run: Run, free: Any) -> None:
    each = bytes_of_seed(run)
    for seeds in (1, 2, 5):
        free(2 * seeds * each)
        assert seeds_that_fit(run, 8) == seeds
        free(2 * seeds * each - 1)
        assert seeds_that_fit(run, 8) == max(1, seeds - 1)
    free(100 * each)
    assert seeds_that_fit(run, 3) == 3  # cores, or seeds


def test_in_a_flow_the_stages_of_a_card_divide_it(
    run: Run, free: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(8 * bytes_of_seed(run))
    assert seeds_that_fit(run, 8) == 4
    monkeypatch.setenv("RAPT_PER_GPU", "2")
    assert seeds_that_fit(run, 8) == 2
    assert seeds_that_fit(run, 2) == 1
    monkeypatch.setenv("RAPT_PER_GPU", "16")
    assert seeds_that_fit(run, 8) == 1


@pytest.mark.parametrize(("where", "seeds"), [("cpu", 5), ("mps", 1)])
def test_of_other_devices_cores_decide_or_one_seed_has_it(
    run: Run, where: str, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "device", lambda: torch.device(where))
    assert seeds_that_fit(run, 5) == seeds


def changed(run: Run, **train: Any) -> Run:
    return replace(run, train=run.train.model_copy(update=train))


def test_what_a_seed_takes(run: Run) -> None:
    """In closed form: BERT's shape of the tests, eight texts of 16 tokens and 3 plain ones."""
    run = replace(run, tuner=Lora(learning_rate=1.0), reconstruction=None)
    model = load_backbone(run.backbone)[0]
    config = model.config
    in_file = [w for name, w in model.named_parameters() if "pooler" not in name]
    weights = sum(w.numel() for w in in_file)
    hidden, heads = config.hidden_size, config.num_attention_heads
    pairs = 5 * heads * (16 + 3) // 2
    kept = config.num_hidden_layers * 8 * (16 + 3) * (17 * hidden + pairs)
    assert bytes_of_seed(run) == CONTEXT + 4 * weights + 4 * kept
    bf16 = changed(run, precision="bf16")
    assert bytes_of_seed(bf16) == CONTEXT + 2 * weights + 2 * kept
    full = replace(run, tuner=Full(learning_rate=1.0))
    assert bytes_of_seed(full) == CONTEXT + 16 * weights + 4 * kept


def test_more_of_anything_takes_more(run: Run) -> None:
    least = bytes_of_seed(replace(run, reconstruction=None))
    assert bytes_of_seed(run) == least + 12 * 8 * 3 * 7  # texts, plain tokens and vocabulary
    run = replace(run, reconstruction=None)
    for more in (
        changed(run, batch_size=9),
        changed(run, max_tokens=17),
        replace(run, tuner=PromptTuning(tokens=1)),
    ):
        assert bytes_of_seed(more) > least
    assert bytes_of_seed(changed(run, gradient_checkpointing=True)) < least
    assert bytes_of_seed(replace(run, tuner=Lora(quantize="4bit"))) < least
