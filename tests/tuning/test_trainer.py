from collections.abc import Sequence
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch

from rapt.tuning import trainer as module
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Reconstruction, Run
from rapt.tuning.inputs import NO_PLAIN, Batch, Split, collate, read_targets
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import Trainer
from tests.tuning.conftest import TARGETS, texts, trainer_of
from tests.tuning.test_checkpoints import steps_after_a_stop


def trainer(run: Run) -> Trainer:
    made = trainer_of(run)
    if run.reconstruction:
        made.reconstruct(read_targets(run.release / "seed-0/plain.parquet"), 7)
    return made


def weighing(run: Run, reduction: str, weight: float) -> Run:
    told = {"head_size": 8, "weight": weight, "reduction": reduction}
    return replace(run, reconstruction=Reconstruction.model_validate(told))


@pytest.mark.parametrize(("reduction", "share"), [("sum", 1), ("mean", 1 / 3)])
def test_losses_are_the_definition(run: Run, reduction: str, share: float) -> None:
    """The sum (mean) of −log p of the text's own sequence, each at its own word's activation."""
    made = trainer(weighing(run, reduction, 1.0))
    made.model.eval()
    split = texts(run)
    batch = collate(split, [0, 1, 2], 0)
    rows = pq.read_table(run.release / "seed-0/train.parquet").to_pydict()
    given = rows["sequence"][:3]
    assert set(given) == {0, 1}
    losses = made._losses(batch)
    hidden = made.model.activations(batch)
    expected, task = 0.0, 0.0
    for b in range(3):
        for i, target in enumerate(TARGETS[given[b]]):
            own = [j for j, place in enumerate(split.plain[b]) if place == i]
            logits = made.head.down(made.head.up(hidden[b, own].mean(0)))  # type: ignore[union-attr]
            expected -= share * logits.log_softmax(0)[target].item() / 3
        text = [j for j, own in enumerate(split.text[b]) if own]
        logits = made.model.head(hidden[b, text].mean(0))
        task -= logits.log_softmax(0)[split.labels[b]].item() / 3
    assert losses["reconstruction_loss"].item() == pytest.approx(expected, rel=1e-5)
    assert losses["task_loss"].item() == pytest.approx(task, rel=1e-5)


def gradients(run: Run) -> dict[str, torch.Tensor]:
    """Of a first step, in parts of three texts."""
    made = trainer(run)
    made.model.eval()
    made.micro_batch, made.steps = 3, 1
    made.optimizer = torch.optim.AdamW(made.parts.parameters())
    split = texts(run)
    gradient, _ = made._backward(split, [*range(8)])
    gradient.end()
    return {name: w.grad for name, w in made.learning().items() if w.grad is not None}


def test_the_mean_is_the_sum_over_the_length(run: Run) -> None:
    """At a weight of 1 its gradient is the sum's at a weight of 1/length."""
    mean, total = (gradients(weighing(run, *of)) for of in (("mean", 1.0), ("sum", 1 / 3)))
    for name, gradient in mean.items():
        torch.testing.assert_close(total[name], gradient)


def test_on_the_cpu_few_tokens_are_computed_at_a_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that fits; a text that is longer is computed alone. The gradient stays."""
    monkeypatch.setattr(module, "device", lambda: torch.device("cpu"))
    whole, sizes = gradients(run), list[tuple[int, int]]()

    def recorded(split: Split, rows: Sequence[int], pad: int) -> Batch:
        batch = collate(split, rows, pad)
        sizes.append((batch.tokens.shape[0], batch.tokens.numel()))
        return batch

    monkeypatch.setattr(module, "collate", recorded)
    for most, together in ((26, 2), (10, 1)):
        monkeypatch.setattr(module, "TOKENS", most)
        sizes.clear()
        parts = gradients(run)
        assert max(rows for rows, _ in sizes) == together and sum(rows for rows, _ in sizes) == 8
        assert all(tokens <= most or rows == 1 for rows, tokens in sizes)
        for name, gradient in whole.items():
            torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("schedule", "last"), [("linear", 0.0), ("constant", 0.02)])
def test_the_rate_falls_to_the_last_step_or_stays(run: Run, schedule: str, last: float) -> None:
    """The last batch of an epoch is a short one."""
    changes = {"schedule": schedule, "batch_size": 40, "epochs": 2}
    made = trainer(replace(run, train=run.train.model_copy(update=changes)))
    split = texts(run)
    assert len(split) % 40
    made.fit(split, Checkpoint(run, "x"))
    assert made.steps == made.schedule.last_epoch == 2 * (len(split) // 40 + 1)
    assert run.learning_rate == 0.02
    assert made.schedule.get_last_lr() == pytest.approx([last])


UNSEEN = ("reconstruction_unseen", "reconstruction_unseen_words")


def test_the_reconstruction_is_scored_on_sequences_that_nothing_was_tuned_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that always names the first sequence is right on it, also where all words are new."""
    made = trainer(run)
    split = texts(run, "test")
    assert set(split.sequences) == {0, 1}
    first = torch.nn.functional.one_hot(made.targets[0], 7)
    monkeypatch.setattr(
        made,
        "_reconstructed",
        lambda _, batch: (
            made.targets[batch.sequences],
            first.expand(len(batch.sequences), -1, -1),
        ),
    )
    assert made.reconstructs(split, tuned={1}) == dict.fromkeys(UNSEEN, 1.0)
    assert made.reconstructs(split, tuned={0})["reconstruction_unseen"] < 0.5
    made.targets[1, 0] = made.targets[0, 0]  # a word that both have is not new
    found = made.reconstructs(split, tuned={0})
    assert found == {UNSEEN[0]: 1 / made.targets.shape[1], UNSEEN[1]: 0.0}
    assert made.reconstructs(split, tuned={0, 1}) == {}


def test_plain_tokens_without_the_objective_are_read_all_the_same(run: Run) -> None:
    """They stand before the text and no head predicts them; without them the input is another."""
    made = trainer(replace(run, reconstruction=None))
    made.model.eval()
    split = texts(run)
    assert made.head is None
    batch = collate(split, [0, 1], 0)
    losses = made._losses(batch)
    assert set(losses) == {"task_loss"}
    own = batch.plain != NO_PLAIN
    assert own.any(1).all()
    without = replace(batch, attention=batch.attention * ~own)
    assert made._losses(without)["task_loss"] != losses["task_loss"]
    result = train_seed(replace(run, reconstruction=None))
    assert set(result.curves) == {"task_loss"}


@pytest.mark.parametrize("together", [5, pytest.param(99, marks=pytest.mark.slow)])
def test_losses_that_are_read_together_are_the_same(
    run: Run, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a run that saves after each step, and of one that stops in between."""
    expected = train_seed(run)
    monkeypatch.setitem(module.TOGETHER, "cpu", together)
    assert train_seed(run) == expected
    for seconds in (0, 600):
        steps_after_a_stop(run, monkeypatch, seconds, 19)
