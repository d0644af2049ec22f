"""Private training: gradients of single texts, clipping, noise and what is stated."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from opacus.grad_sample import GradSampleHooks
from torch import Tensor

from rapt.tuning.accounting import noise_for
from rapt.tuning.config import Run
from rapt.tuning.inputs import Split, read_split
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import Classifier
from rapt.tuning.private import PrivateGradients, PrivateStep, scaled
from rapt.tuning.strategies import Clipping, Gradient, Plain, Private
from rapt.tuning.train import train_seeds
from rapt.tuning.trainer import Trainer
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.families import PAIRS, TUNERS, adapted, cell
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run


def made(run: Run, gradient: Gradient | None = None) -> Trainer:
    """The trainer of a family's model in three classes, which reconstructs plain words."""
    torch.manual_seed(1)
    name = "bilstm" if run.encoder else run.tuner.type
    model = Classifier(adapted(run.backbone, name), 3)
    train = run.train.model_copy(update={"gradient": gradient or Plain()})
    trainer = Trainer(replace(run, train=train), model, load_tokenizer(run.backbone).pad_token_id)
    if run.tuner.learns != "head":
        trainer.reconstruct(torch.tensor([[6, 0, 3]]), 7)
    trainer.parts.eval()
    trainer.steps, trainer.optimizer = 20, torch.optim.AdamW(trainer.parts.parameters())
    return trainer


def gradients(trainer: Trainer, split: Split, rows: list[int]) -> dict[str, Tensor]:
    """Of a step on these texts, in parts of four at most."""
    trainer.micro_batch = 4
    step, _ = trainer._backward(split, rows)
    step.end()
    return {name: w.grad.clone() for name, w in trainer.learning().items() if w.grad is not None}


@pytest.mark.parametrize(("family", "tuner"), PAIRS)
def test_the_gradient_of_each_text_is_its_own(
    folders: dict[str, Path], run: Run, family: str, tuner: str
) -> None:
    """Clipped sums equal those of plain gradients one by one, with padding and plain words."""
    run = cell(run, folders[family], tuner)
    split = split_of(run)
    rows, plain = list(range(6)), made(run)
    alone = [gradients(plain, split, [row]) for row in rows]
    norms = [math.sqrt(sum(float(g.double().square().sum()) for g in a.values())) for a in alone]
    clip = sorted(norms)[3]  # half of them are longer
    private = made(run, Private(epsilon=1e9, delta=1e-3, clip=clip))
    private.gradient = strategy = noiseless(private)
    # Elsewhere one lookup of positions is for all texts, or what learns is by Opacus or alone.
    assert bool(strategy.ghost) == (tuner == "full" and family not in ("mpnet", "t5"))
    keep(private)
    found = gradients(private, split, rows)
    assert found.keys() >= alone[0].keys()  # a weight that nothing reads has noise alone
    largest = max(float(g.abs().max()) for one in alone for g in one.values())
    for name, value in found.items():
        scales = [min(1.0, clip / norm) for norm in norms]
        expected = torch.zeros_like(value)
        for scale, one in zip(scales, alone, strict=True):
            expected += scale * one.get(name, torch.zeros_like(value))
        torch.testing.assert_close(
            value * run.train.batch_size, expected, rtol=0, atol=1e-5 * largest, msg=name
        )


def keep(trainer: Trainer) -> None:
    """Let Opacus keep what layers read, as it does not in evaluation, but without dropout."""
    for module in trainer.parts.modules():
        module.training = any(w.requires_grad for w in module.parameters(recurse=False))


def noiseless(trainer: Trainer) -> PrivateGradients:
    strategy = strategy_of(trainer)
    strategy.noise = 0.0
    return strategy


@pytest.mark.parametrize("clipping", ["flat", "automatic", "stable", "quantile"])
@given(norm=st.floats(0, 1e12), clip=st.floats(1e-3, 1e3))
def test_no_scaled_gradient_is_longer_than_the_norm(
    clipping: Clipping, norm: float, clip: float
) -> None:
    scale = scaled(torch.tensor([norm], dtype=torch.float64), clip, clipping).item()
    assert scale > 0 and scale * norm <= clip * (1 + 1e-12)


def test_how_short_gradients_are_scaled() -> None:
    """AUTO-S gives a text of gradient 0 a hundred times the weight of one of 1, DP-PSAC a like."""
    norms = torch.tensor([0.0, 1.0, 1e6], dtype=torch.float64)
    expected = {
        "flat": [1, 1, 2e-6],
        "automatic": [200, 2 / 1.01, 2e-6],
        "stable": [2, 2 / (1 + 0.1 / 1.1), 2e-6],
    }
    for clipping, values in expected.items():
        found = scaled(norms, 2.0, cast(Clipping, clipping)).tolist()
        assert found == pytest.approx(values, rel=1e-6)


@pytest.fixture
def tiny(run: Run, folders: dict[str, Path]) -> Run:
    return cell(run, folders["bert"], "lora")


def split_of(run: Run) -> Split:
    return read_split(run.release / "seed-0/train.parquet", load_tokenizer(run.backbone), 16)


def strategy_of(trainer: Trainer) -> PrivateGradients:
    found = trainer.run.gradient.prepared(trainer, 64)
    assert isinstance(found, PrivateGradients)
    return found


@pytest.mark.slow
def test_a_step_without_texts_is_noise_of_the_size_that_is_stated(tiny: Run) -> None:
    """The mean square of some thousand numbers is near its law: false alarms are 1 of 100."""
    trainer = made(tiny, Private(epsilon=3, delta=1e-3, clip=2.0))
    trainer.gradient = strategy = strategy_of(trainer)
    torch.manual_seed(0)
    found = torch.cat([g.flatten() for g in gradients(trainer, split_of(tiny), []).values()])
    stated = strategy.statement()
    assert stated["noise"] == noise_for(3, 1e-3, 8 / 64, 20) and stated["epsilon"] <= 3
    size = float(found.double().square().mean().sqrt())
    assert size == pytest.approx(stated["noise"] * 2.0 / 8, rel=2.6 / math.sqrt(2 * len(found)))


def test_each_text_is_drawn_by_itself_with_one_probability(tiny: Run) -> None:
    """A shuffle would draw each text once an epoch, and batches of one size. Bounds are of 5 sd."""
    trainer = made(tiny, Private(epsilon=3, delta=1e-3))
    strategy, counts, sizes = strategy_of(trainer), torch.zeros(64), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        for rows in strategy.batches([5] * 64, 8, generator):
            counts[rows] += 1
            sizes.append(len(rows))
    assert len(sizes) == 4000
    assert float((counts / 4000 - 1 / 8).abs().max()) < 5 * math.sqrt(1 / 8 * 7 / 8 / 4000)
    spread = torch.tensor(sizes, dtype=torch.float64).var().item()
    assert spread == pytest.approx(64 / 8 * 7 / 8, rel=5 * math.sqrt(2 / 4000))


def test_the_norm_follows_the_median(tiny: Run) -> None:
    """To 1, at gradients of norm 1. With the sign inverted, as in Flower 1.42, it runs away."""
    for start in (0.1, 10.0):
        how = Private(epsilon=100, delta=1e-3, clip=start, clipping="quantile")
        strategy = strategy_of(made(tiny, how))
        assert strategy.noise > strategy.total  # the count has its share of what is spent
        torch.manual_seed(0)
        for _ in range(100):
            strategy.follow(strategy.size / 2 if strategy.clip >= 1 else -strategy.size / 2)
        assert 0.8 < strategy.clip < 1.25


@pytest.mark.parametrize("rows", [[], [0], list(range(6))])
def test_a_text_changes_the_count_that_moves_the_norm_by_one_half(
    tiny: Run, rows: list[int]
) -> None:
    """On this the noise of the count rests: a whole text more would be twice what is accounted."""
    how = Private(epsilon=100, delta=1e-3, clip=1e6, clipping="quantile")
    trainer = made(tiny, how)
    trainer.gradient = strategy = strategy_of(trainer)
    heard: list[float] = []
    strategy.follow = heard.append  # type: ignore[method-assign]
    keep(trainer)
    for clip, sign in ((1e6, 1), (1e-9, -1)):
        strategy.clip = clip
        gradients(trainer, split_of(tiny), rows)
        assert heard.pop() == sign * len(rows) / 2


def test_texts_are_drawn_apart_from_the_noise_of_the_same_seed(tiny: Run) -> None:
    """The trainer's generators begin alike; equal draws are chance once in 10⁶."""
    strategy = strategy_of(made(tiny, Private(epsilon=3, delta=1e-3)))
    order, noise = (torch.Generator().manual_seed(7) for _ in range(2))
    (drawn, *_) = strategy.batches([5] * 64, 8, order)
    like_noise = torch.rand(64, dtype=torch.float64, generator=noise) < strategy.rate
    assert drawn != like_noise.nonzero().flatten().tolist()


AUTHORS = [row % 8 for row in range(40)] + [8] * 24


def of_authors(run: Run) -> tuple[Trainer, PrivateGradients]:
    trainer = made(run, Private(epsilon=8, delta=1e-3, unit="author"))
    strategy = trainer.run.gradient.prepared(trainer, 64, AUTHORS)
    assert isinstance(strategy, PrivateGradients)
    trainer.gradient = strategy
    return trainer, strategy


def test_an_author_s_texts_have_one_gradient_of_at_most_the_norm(tiny: Run) -> None:
    """That of their mean loss, however many they are; the denominator is that of authors."""
    trainer, strategy = of_authors(tiny)
    split, plain = split_of(tiny), made(tiny)
    own = [[row for row in range(6, 64) if AUTHORS[row] == author] for author in (1, 3, 8)]
    alone = [gradients(plain, split, rows) for rows in own]
    norms = [math.sqrt(sum(float(g.double().square().sum()) for g in a.values())) for a in alone]
    strategy.clip, strategy.noise = sorted(norms)[1], 0.0  # one of them is longer
    found = gradients(trainer, split, [row for rows in own for row in rows])
    assert strategy.expected == 8 * 9 / 64
    for name, value in found.items():
        scaled_sum = sum(
            min(1.0, strategy.clip / norm) * one[name]
            for norm, one in zip(norms, alone, strict=True)
        )
        torch.testing.assert_close(value * strategy.expected, scaled_sum, rtol=1e-4, atol=1e-7)


def test_authors_are_drawn_with_all_that_they_wrote(tiny: Run) -> None:
    """Each by itself with one probability; of many texts 16 are drawn. The bound is of 5 sd."""
    strategy, counts = of_authors(tiny)[1], torch.zeros(9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        for rows in strategy.batches([5] * 64, 8, generator):
            for part in strategy.parts(rows, 2):
                (author,) = {AUTHORS[row] for row in part}
                assert len({*part}) == (16 if author == 8 else 5)
                counts[author] += 1
    assert float((counts / 4000 - 1 / 8).abs().max()) < 5 * math.sqrt(1 / 8 * 7 / 8 / 4000)
    assert strategy.statement()["authors"] == 9


@pytest.mark.parametrize(
    ("authors", "line"),
    [
        ([0] * 64, "private.unit: got 64 texts of one author, expected more than one"),
        (None, "private.unit: got author, expected text where authors are not known"),
    ],
)
def test_authors_that_cannot_be_units_are_one_line(
    tiny: Run, authors: list[int] | None, line: str
) -> None:
    trainer = made(tiny, Private(epsilon=8, delta=1e-3, unit="author"))
    with pytest.raises(RaptError, match=line):
        trainer.run.gradient.prepared(trainer, 64, authors)


@pytest.mark.slow
def test_it_learns_and_says_what_it_spent(tiny: Run) -> None:
    """At an ε in the hundreds nearly as without."""
    train = tiny.train.model_copy(update={"epochs": 20, "batch_size": 16})
    tuner = tiny.tuner.model_copy(update={"private": Private(epsilon=500, delta=1e-3)})
    (trained,) = train_seeds([replace(tiny, tuner=tuner, train=train)])
    assert files.read_json(tiny.adapter / "rapt.json")["training"] == trained.training
    assert trained.result.metrics["accuracy"] > 0.8  # of three classes
    assert trained.training and trained.training["steps"] == 80
    assert trained.training["rate"] == 16 / 64 and trained.training["epsilon"] <= 500


@pytest.mark.parametrize(
    ("changes", "batch", "line"),
    [
        ({"delta": 0.02}, 8, r"private.delta: got 0.02 for 64 texts, expected less than 0.016"),
        ({"delta": 1e-3}, 65, "train.batch_size: got 65 for 64 texts, expected at most these"),
        ({"delta": 1e-9, "epsilon": 1e-5}, 8, "private.epsilon: got 1e-05 at delta 1e-09, which"),
        ({"delta": 1e-3, "clipping": "quantile"}, 8, "private.clipping: got quantile at noise"),
    ],
)
def test_what_cannot_be_is_one_line(
    tiny: Run, changes: dict[str, Any], batch: int, line: str
) -> None:
    train = tiny.train.model_copy(update={"batch_size": batch})
    trainer = made(replace(tiny, train=train), Private.model_validate({"epsilon": 0.5} | changes))
    with pytest.raises(RaptError, match=line):
        strategy_of(trainer)


@pytest.mark.parametrize("backward", [False, True])
def test_a_step_that_memory_does_not_suffice_for_is_tried_again(tiny: Run, backward: bool) -> None:
    """In smaller parts, from which the same gradient comes."""
    split, rows = split_of(tiny), [0, 1, 2, 3]
    trainer = noiseless_lora(tiny)
    expected = gradients(trainer, split, rows)
    trainer, failing = noiseless_lora(tiny), [True]

    def fails(*_: Any) -> None:
        if failing and trainer.micro_batch > 2:
            failing.clear()
            raise RuntimeError("can't allocate memory")

    layer = trainer.model.backbone.get_submodule("base_model.model.encoder.layer.0")
    if backward:
        layer.register_forward_hook(lambda *of: _first(of[-1]).register_hook(fails) and None)
    else:
        layer.register_forward_hook(fails)
    trainer.optimizer = torch.optim.SGD(trainer.parts.parameters(), lr=0.0)
    trainer.schedule = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda _: 1.0)
    trainer._step(split, rows, 0)
    assert not failing and trainer.micro_batch == 2
    for name, weight in trainer.learning().items():
        torch.testing.assert_close(weight.grad, expected[name], atol=1e-6, rtol=1e-4)


def noiseless_lora(run: Run) -> Trainer:
    trainer = made(run, Private(epsilon=8, delta=1e-3))
    trainer.gradient, trainer.micro_batch = noiseless(trainer), 4
    keep(trainer)
    return trainer


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def test_gradients_in_bf16_are_summed_in_float32(tiny: Run) -> None:
    """Else the sum rounds by how many texts there are, and one text moves it by more than C."""
    trainer = noiseless_lora(
        replace(tiny, train=tiny.train.model_copy(update={"precision": "bf16"}))
    )
    step = trainer.gradient.step(trainer.learning().values())
    assert isinstance(step, PrivateStep)
    (weight, *_) = trainer.learning().values()
    weight.grad, weight.grad_sample = weight.detach(), weight.detach()[None].bfloat16()  # type: ignore[attr-defined]
    step.texts = 1
    found = step._of_texts(weight)
    assert found is not None and found.dtype == torch.float32


def test_a_layer_whose_texts_are_not_told_apart_is_one_line(tiny: Run) -> None:
    """As of virtual tokens, which PEFT reads once for all texts of a batch: never silently."""
    how = replace(tiny, tuner=TUNERS["prompt-tuning"])
    trainer = made(how, Private(epsilon=8, delta=1e-3))
    strategy = strategy_of(trainer)
    assert strategy.at_a_time == 1
    strategy.at_a_time, strategy.by_layer = None, True
    GradSampleHooks(trainer.parts, strict=False)
    trainer.gradient = strategy
    trainer.parts.train()
    with pytest.raises(RaptError, match=r"got a weight of \(5, 32\) whose gradient is not told"):
        gradients(trainer, split_of(how), [0, 1, 2])
