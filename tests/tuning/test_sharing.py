"""The seeds of a cell in one process: on the same frozen weights, and as if each were alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import dispatch_model, infer_auto_device_map

from rapt.results.cells import SeedResult
from rapt.tuning import backbones, loading
from rapt.tuning import train as module
from rapt.tuning.config import Run
from rapt.tuning.inputs import collate
from rapt.tuning.loading import sharing_weights
from rapt.tuning.model import adapt, load_backbone
from rapt.tuning.train import train_seed, train_seeds
from rapt.utils.errors import RaptError
from rapt.utils.files import sha256
from tests.tuning import families
from tests.tuning.conftest import STATEMENT, pad_of, texts
from tests.tuning.test_checkpoints import stop

# With dropout, whose numbers a seed must draw as it would alone.
TUNERS = families.TUNERS | {"lora": families.TUNERS["lora"].model_copy(update={"dropout": 0.1})}
Pair = Callable[[str], tuple[Run, Run]]


@pytest.fixture
def seeds(run: Run, tmp_path: Path) -> Pair:
    """Two seeds of a cell, by the name of its tuner."""

    def made(tuner: str) -> tuple[Run, Run]:
        short = replace(run, tuner=TUNERS[tuner], train=run.train.model_copy(update={"epochs": 1}))
        return (
            replace(short, k=0, adapter=tmp_path / "first"),
            replace(short, k=1, adapter=tmp_path / "second"),
        )

    return made


def in_turn(runs: list[Run]) -> list[SeedResult]:
    """As a cell does: the checkpoints go once all seeds are there."""
    seeds = train_seeds(runs)
    for trained in seeds:
        trained.checkpoint.unlink()
    return [trained.result for trained in seeds]


@pytest.mark.parametrize(
    ("tuner", "precision"), [("lora", "bf16"), *((tuner, "float32") for tuner in TUNERS)]
)
def test_a_seed_after_another_is_as_one_alone(seeds: Pair, tuner: str, precision: Any) -> None:
    runs = [
        replace(r, train=r.train.model_copy(update={"precision": precision})) for r in seeds(tuner)
    ]
    together = in_turn(runs)
    for run, result in zip(runs, together, strict=True):
        alone = replace(run, adapter=run.adapter.with_name(f"{run.adapter.name}-alone"))
        assert train_seed(alone) == result
        assert sha256(alone.adapter) == sha256(run.adapter)


@pytest.mark.parametrize(
    ("tuner", "times"), [("lora", 1), ("prefix-tuning", 1), ("full", 2), ("linear-probe", 1)]
)
def test_frozen_weights_are_loaded_once(
    seeds: Pair, tuner: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def counted(*args: Any, **named: Any) -> Any:
        loaded.append(args)
        return load_backbone(*args, **named)

    monkeypatch.setattr(module, "load_backbone", counted)
    in_turn(seeds(tuner))
    assert len(loaded) == times


@pytest.mark.parametrize("tuner", [n for n, tuner in TUNERS.items() if tuner.learns == "adapter"])
def test_a_run_that_fails_leaves_the_shared_weights_as_they_were(seeds: Pair, tuner: str) -> None:
    first, second = seeds(tuner)
    wild = replace(first, tuner=first.tuner.model_copy(update={"learning_rate": 1e30}))
    frozen = module.backbone_of(first, STATEMENT)
    before = {name: value.clone() for name, value in frozen[0].state_dict().items()}
    modules = [type(part) for part in frozen[0].modules()]
    with pytest.raises(RaptError, match="got a loss that is not a number"):
        module._trained(wild, STATEMENT, frozen)
    (result,) = module._trained(second, STATEMENT, frozen)
    result.checkpoint.unlink()
    assert [type(part) for part in frozen[0].modules()] == modules
    for name, value in frozen[0].state_dict().items():
        assert torch.equal(value, before[name])
    alone = replace(second, adapter=second.adapter.with_name("alone"))
    assert train_seed(alone) == result.result
    assert sha256(alone.adapter) == sha256(second.adapter)


@pytest.mark.parametrize("tuner", ["lora", "full"])
def test_a_stopped_seed_goes_on_in_the_next_process(
    seeds: Pair, tuner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = seeds(tuner)
    whole = [replace(r, adapter=r.adapter.with_name(f"{r.adapter.name}-whole")) for r in runs]
    expected = in_turn(whole)
    monkeypatch.setattr("rapt.tuning.checkpoints.SECONDS", 0)
    stop(runs, monkeypatch, 7)
    step, steps = module.Trainer._step, list[tuple[int, int]]()

    def counted(self: Any, *of: Any) -> Any:
        return steps.append((self.run.k, of[2])) or step(self, *of)

    monkeypatch.setattr(module.Trainer, "_step", counted)
    assert in_turn(runs) == expected
    assert steps[0] == (1, 7)  # the first seed is only scored again
    assert [sha256(r.adapter) for r in runs] == [sha256(r.adapter) for r in whole]


def test_a_copy_has_the_weights_in_common_and_the_modules_to_itself(run: Run) -> None:
    model = load_backbone(run.backbone)[0]
    copy = sharing_weights(model)
    assert [id(w) for w in copy.parameters()] == [id(w) for w in model.parameters()]
    assert not {id(m) for m in copy.modules()} & {id(m) for m in model.modules()}
    adapt(copy, TUNERS["lora"])
    assert not any("lora" in name for name, _ in model.named_modules())


def test_a_model_that_accelerate_has_dispatched_computes_the_same(run: Run) -> None:
    """Its hooks go along into the copies: here all of them lead to the CPU."""
    backbone, batch = load_backbone(run.backbone)[0], collate(texts(run), [0, 1, 2], pad_of(run))
    torch.manual_seed(0)
    expected = backbones.activations(adapt(sharing_weights(backbone), run.tuner), batch)
    places = {"embeddings": "cpu", "encoder.layer.0": "cpu", "encoder.layer.1": "cpu"}
    places |= {name: "cpu" for name, _ in backbone.named_children() if name == "pooler"}
    dispatch_model(backbone, places, main_device="cpu", force_hooks=True)
    for _ in range(2):
        copy = sharing_weights(backbone)
        assert copy.encoder.layer[0]._hf_hook is not backbone.encoder.layer[0]._hf_hook
        torch.manual_seed(0)
        found = backbones.activations(adapt(copy, run.tuner), batch)
        assert torch.equal(found, expected)
        copy.embeddings.word_embeddings.forward = None  # type: ignore[assignment]
    assert torch.isfinite(backbones.activations(backbone, batch)).all()


def test_several_gpus_are_filled_one_after_the_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_backbone(run.backbone)[0]
    size = sum(w.numel() * w.element_size() for w in model.parameters())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def spread(free: int) -> list[Any]:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free, free))
        how = loading._over_gpus()
        assert how.pop("device_map") == "sequential"
        found = infer_auto_device_map(model, **how, no_split_module_classes=["BertLayer"])
        return sorted(set(found.values()), key=str)

    assert spread(8 * size) == [0]
    assert spread(9 * size // 5) == [0, 1]
    assert "disk" in spread(size // 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda where: None)
    monkeypatch.setenv("RAPT_DEVICE", "cuda:1")  # that one alone
    assert not loading._over_gpus()
    monkeypatch.delenv("RAPT_DEVICE")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert not loading._over_gpus()


def test_a_backbone_for_which_the_gpus_are_too_small_is_one_line(run: Run) -> None:
    model = load_backbone(run.backbone)[0]
    assert loading._whole(model) is model
    for place in ("cpu", "disk"):
        model.hf_device_map = {"embeddings": 0, "encoder": place}  # type: ignore[assignment]
        with pytest.raises(
            RaptError, match=r"^the backbone: got one larger than half .* bf16 or quantize"
        ):
            loading._whole(model)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus_train_a_backbone_that_half_of_one_does_not_hold(
    seeds: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = seeds("lora")
    size = sum(w.numel() * w.element_size() for w in load_backbone(run.backbone)[0].parameters())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (9 * size // 5, size))
    backbone = load_backbone(run.backbone, None, "float32")[0]
    assert len({weight.device for weight in backbone.parameters()}) == 2
    longer = run.train.model_copy(update={"epochs": 10})
    losses = train_seed(replace(run, train=longer)).curves["task_loss"]
    assert losses[-1] < losses[0] / 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_a_gpu_the_frozen_weights_stay_where_the_first_seed_put_them(seeds: Pair) -> None:
    first, second = seeds("lora")
    frozen = module.backbone_of(first, STATEMENT)
    module._trained(first, STATEMENT, frozen)
    places = [weight.data_ptr() for weight in frozen[0].parameters()]
    module._trained(second, STATEMENT, frozen)
    assert all(weight.is_cuda for weight in frozen[0].parameters())
    assert [weight.data_ptr() for weight in frozen[0].parameters()] == places
