"""bfloat16 for the backbone's products; what learns, and what is written, stays float32."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rapt.results.cells import SeedResult
from rapt.serving.model import Adapted
from rapt.tuning.config import Run
from rapt.tuning.inputs import collate
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Full
from rapt.utils.files import sha256
from tests.tuning.conftest import pad_of, reread, texts, trainer_of
from tests.tuning.families import FAMILIES, TUNERS, fits, make


@pytest.fixture(params=["lora", "full"])
def low(run: Run, request: pytest.FixtureRequest) -> Run:
    tuner = run.tuner if request.param == "lora" else Full(learning_rate=0.005)
    return replace(run, tuner=tuner, train=run.train.model_copy(update={"precision": "bf16"}))


@pytest.fixture(scope="module")
def trained_once() -> dict[str, tuple[Run, SeedResult]]:
    return {}


@pytest.fixture
def trained(
    low: Run,
    tmp_path_factory: pytest.TempPathFactory,
    trained_once: dict[str, tuple[Run, SeedResult]],
) -> tuple[Run, SeedResult]:
    """A run of each tuner, trained once, and its result."""
    tuner = low.tuner.type
    if tuner not in trained_once:
        folder = tmp_path_factory.mktemp(tuner) / "adapter"
        kept = replace(low, adapter=folder, backbone_name=str(low.backbone))
        trained_once[tuner] = kept, train_seed(kept)
    return trained_once[tuner]


def trainer(run: Run) -> tuple[Trainer, Any]:
    made = trainer_of(run)
    return made, collate(texts(run), [0, 1, 2], pad_of(run)).to(made.device)


def test_it_learns_as_float32_does(trained: tuple[Run, SeedResult], tmp_path: Path) -> None:
    low, result = trained
    high = low.train.model_copy(update={"precision": "float32"})
    plain = train_seed(replace(low, train=high, adapter=tmp_path / "float32"))
    assert abs(result.metrics["accuracy"] - plain.metrics["accuracy"]) < 0.1
    for name in ("task_loss", "reconstruction_loss"):
        np.testing.assert_allclose(result.curves[name], plain.curves[name], rtol=0.1)
    assert result.curves != plain.curves


def test_equal_runs_give_equal_bytes(trained: tuple[Run, SeedResult], tmp_path: Path) -> None:
    low, result = trained
    again = replace(low, adapter=tmp_path / "again")
    assert train_seed(again) == result
    assert sha256(low.adapter) == sha256(again.adapter)


def test_what_learns_and_what_is_written_is_float32(
    low: Run, trained: tuple[Run, SeedResult]
) -> None:
    made, batch = trainer(low)
    assert {weight.dtype for weight in made.learning().values()} == {torch.float32}
    frozen = {w.dtype for w in made.model.parameters() if not w.requires_grad}
    assert frozen == (set() if isinstance(low.tuner, Full) else {torch.bfloat16})
    seen: list[torch.dtype] = []
    layer = next(m for n, m in made.model.named_modules() if n.endswith("intermediate.dense"))
    layer.register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    activations = made.model.activations(batch)
    assert set(seen) == {torch.bfloat16}
    assert activations.dtype == made.model.scores(activations, batch).dtype == torch.float32
    made.model.scores(activations, batch).sum().backward()
    assert {w.grad.dtype for w in made.learning().values() if w.grad is not None} == {torch.float32}
    written = list(trained[0].adapter.glob("*.safetensors"))
    assert written
    for path in written:
        assert {value.dtype for value in load_file(path).values()} == {torch.float32}


def test_it_is_served_as_it_was_scored(trained: tuple[Run, SeedResult]) -> None:
    low, result = trained
    assert reread(low, "bf16", low.train.batch_size) == result.metrics["accuracy"]


def test_a_server_computes_with_what_the_contract_says(trained: tuple[Run, SeedResult]) -> None:
    model = Adapted(trained[0].adapter)
    assert model.contract.precision == model._model.precision == "bf16"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_gpu_learns_in_bf16(low: Run) -> None:
    result = train_seed(replace(low, train=low.train.model_copy(update={"epochs": 10})))
    assert result.metrics["accuracy"] > 0.9


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_gpu_steps_with_a_fused_optimizer(low: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def recorded(*given: Any, **how: Any) -> torch.optim.Optimizer:
        made.append(torch.optim.AdamW(*given, **how))
        return made[0]

    monkeypatch.setattr("rapt.tuning.train.torch.optim.AdamW", recorded)
    train_seed(low)
    assert made[0].defaults["fused"]


@pytest.mark.parametrize(
    ("family", "tuner"),
    [pair for pair in product(FAMILIES, TUNERS) if fits(*pair) and pair[1] != "linear-probe"],
)
def test_every_family_computes_in_it(
    run: Run, tmp_path_factory: pytest.TempPathFactory, family: str, tuner: str
) -> None:
    folder = make(family, tmp_path_factory.mktemp(family))
    hidden = []
    for precision in ("float32", "bf16"):
        loop = run.train.model_copy(update={"precision": precision})
        low = replace(run, backbone=folder, tuner=TUNERS[tuner], train=loop)
        made, batch = trainer(low)
        made.model.eval()
        hidden.append(made.model.activations(batch))
        hidden[-1].square().sum().backward()
        learnt = [w for name, w in made.learning().items() if not name.startswith("model.head")]
        assert any(w.grad is not None and w.grad.abs().sum() > 0 for w in learnt)
    assert hidden[1].dtype == torch.float32
    torch.testing.assert_close(hidden[1], hidden[0], rtol=0.1, atol=0.1)
