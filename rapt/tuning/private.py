"""DP-SGD (Abadi et al., 2016): the gradient of each text is clipped, and their sum gets noise.

Each step draws every one of n texts with probability q, scales its gradient to at most the norm C,
and releases

    (sum of scaled gradients + N(0, (σC)² I)) / (qn)

With authors as the unit, n are these, and a gradient is that of the mean loss of an author's texts.
AdamW goes on from that: whatever is computed from a release costs nothing more. The denominator
does not depend on how many texts were drawn, and a step that draws none has its noise all the same.

The guarantee is about real numbers, and about those who do not know the noise. The pipeline draws
it by the seed of params.yaml, so that equal runs give equal bytes: a seed that is kept secret
protects, a published one does not.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil, exp
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rapt.tuning.accounting import noise_for, spent
from rapt.tuning.gradients import GradientStep, finest
from rapt.tuning.strategies import Clipping, Private, Strategy
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.tuning.ghost import Ghost
    from rapt.tuning.trainer import Trainer

# What AUTO-S adds to a norm, and DP-PSAC's r.
GAMMA, RADIUS = 0.01, 0.1
# Andrew et al.: the rate at which the norm follows, the quantile that it follows, and the noise of
# the count of texts below it, as a share of a batch.
PACE, QUANTILE, COUNT_NOISE = 0.2, 0.5, 1 / 20
TEXTS_OF_AUTHOR = 16  # in a step, drawn anew: these are read at once
CLIP = "gradient.clip"  # in a checkpoint


class PrivateGradients(Strategy):
    """The private gradients of one run.

    Attributes:
        noise: σ, of the sum of gradients.
        rate: q.
        expected: qn, the units in a batch on average.
        clip: C, which `quantile` changes.
        at_a_time: 1 where the gradients of single texts are computed one by one; None: Opacus
            computes those of many at once, or `ghost` their norms and sum.
    """

    at_a_time: int | None = None
    ghost: Ghost | None = None

    def __init__(
        self, how: Private, trainer: Trainer, texts: int, authors: Sequence[int] | None = None
    ) -> None:
        """Find the noise, and have the trainer's model keep each unit's gradient.

        Raises:
            RaptError: no noise suffices, δ or the batch is too large for so few units, or authors
                are asked for and not known.
        """
        self.how, self.size, self.steps = how, trainer.run.train.batch_size, trainer.steps
        self.clip = how.clip
        if self.size > texts:
            raise trainer.failed(
                0,
                f"train.batch_size: got {self.size} for {texts} texts, expected at most these with "
                "private training.",
            )
        self.authors = self._known(authors, trainer) if how.unit == "author" else None
        units = texts if self.authors is None else len(self.authors)
        if units == 1:
            raise trainer.failed(
                0,
                f"private.unit: got {texts} texts of one {how.unit}, expected more than one. What "
                "is bounded is the part of one among others.",
            )
        if how.delta >= 1 / units:
            raise trainer.failed(
                0,
                f"private.delta: got {how.delta:g} for {units} {how.unit}s, expected less than "
                f"{1 / units:.2g}. At more a training that publishes one {how.unit} would do.",
            )
        self.rate = self.size / texts
        self.expected = self.size * units / texts
        # Of a policy's neighbours none has a text more: one has other words in it.
        self.replaced = how.policy is not None
        law = (how.epsilon, how.delta, self.rate, self.steps)
        self.total = noise_for(*law, replaced=self.replaced)
        self.noise, self.counts = self.total, 0.0
        if how.clipping == "quantile":
            self.counts = COUNT_NOISE * self.expected
            if 2 * self.counts <= self.total:
                raise trainer.failed(
                    0,
                    f"private.clipping: got quantile at noise {self.total:.2g} and batches of "
                    f"{self.size}, which leave none for the count, expected larger batches or "
                    "another clipping.",
                )
            self.noise = beside_count(self.total, self.counts)
        run = trainer.run
        # What is computed again in a backward pass, or summed over the texts, is no single text's.
        apart = not run.train.gradient_checkpointing and not run.denoising
        by_layer = run.tuner.by_layer and apart
        self.by_layer = by_layer and self.authors is None
        if apart and not by_layer and run.tuner.learns == "backbone" and self.authors is None:
            from rapt.tuning.ghost import proved  # it imports models, which a server lacks

            self.ghost = proved(trainer)
        self.at_a_time = None if by_layer or self.ghost else 1
        self._layers = [*trainer.parts.modules()] if self.by_layer else []
        if self.by_layer:
            from opacus.grad_sample import GradSampleHooks  # takes seconds to import

            # Where nothing below a layer learns; its hook has all that it needs.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            # Some layers of Transformers have buffers, which are constants.
            GradSampleHooks(trainer.parts, loss_reduction="mean", strict=False)

    def batches(
        self, lengths: Sequence[int], size: int, generator: torch.Generator
    ) -> Iterator[list[int]]:
        """Yield the rows of each batch of an epoch: each unit is drawn by itself."""
        units = len(lengths) if self.authors is None else len(self.authors)
        # The order's generator has the seed of the noise's, of which these draws are independent.
        seed = torch.randint(2**62, (), generator=generator).item()
        digest = hashlib.sha256(f"texts of a step {seed}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))
        for _ in range(ceil(len(lengths) / size)):
            drawn = torch.rand(units, dtype=torch.float64, generator=generator) < self.rate
            chosen = drawn.nonzero().flatten().tolist()
            if self.authors is None:
                yield sorted(chosen, key=lambda row: lengths[row])
            else:
                yield [row for one in chosen for row in _some(self.authors[one], generator)]

    def parts(self, rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
        """Cut a batch by size; by authors, where these are the unit."""
        if self.authors is None:
            for part in super().parts(rows, size):
                if self.ghost:
                    self.ghost.begin(len(part))
                yield part
        else:
            yield from (list(own) for _, own in groupby(rows, self._author_of.__getitem__))

    def _known(self, authors: Sequence[int] | None, trainer: Trainer) -> list[list[int]]:
        """Return the rows of each author."""
        if authors is None:
            raise trainer.failed(
                0,
                "private.unit: got author, expected text where authors are not known. Releases "
                "name none; of clean text give the task its authors.",
            )
        self._author_of, rows = authors, defaultdict[int, list[int]](list)
        for row, author in enumerate(authors):
            rows[author].append(row)
        return [*rows.values()]

    def step(self, weights: Iterable[torch.nn.Parameter]) -> PrivateStep:
        """Begin the gradient of one batch."""
        for layer in self._layers:  # what Opacus kept of a try that memory did not suffice for
            for kept in ("activations", "max_batch_len"):
                vars(layer).pop(kept, None)
        return PrivateStep(weights, self)

    def state(self) -> dict[str, Tensor]:
        """Return the norm, if it changes."""
        return {CLIP: torch.tensor(self.clip, dtype=torch.float64)} if self.counts else {}

    def resume(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back the norm."""
        if self.counts:
            self.clip = tensors[CLIP].item()

    def follow(self, surplus: float) -> None:
        """Move the norm towards the median, after a step.

        Args:
            surplus: over the units drawn, the sum of ½ for a gradient within the norm and −½ for
                one beyond it. A unit changes it by ½, on which the noise of the count rests.
        """
        noisy = surplus + self.counts * torch.randn(()).item()
        self.clip = followed(self.clip, noisy / self.expected + 0.5)

    def statement(self) -> dict[str, float]:
        """Return what is spent, and the law's parameters: `noise` is the σ of all that is drawn."""
        law = (self.total, self.rate, self.steps, self.how.delta)
        found = spent(*law, replaced=self.replaced)
        authors = {} if self.authors is None else {"authors": len(self.authors)}
        return authors | {
            "epsilon": found,
            "delta": self.how.delta,
            "noise": self.total,
            "clip": self.how.clip,
            "rate": self.rate,
            "steps": self.steps,
        }


class PrivateStep(GradientStep):
    """The private gradient of one step."""

    def __init__(self, weights: Iterable[torch.nn.Parameter], of: PrivateGradients) -> None:
        """Begin at zero."""
        super().__init__(weights)
        self._of, self._surplus = of, 0.0
        self._sums = [torch.zeros_like(weight) for weight in self.weights]
        for weight in self.weights:
            _forget(weight)

    def add(self, task: Tensor, other: Tensor | None, share: float) -> None:
        """Clip the gradient of each of a part's texts, or that of its author, and add it."""
        loss = task if other is None else task + other
        if self._of.ghost:
            of_texts = self._of.ghost.read(loss)
            sums = of_texts.weighted(self._factors(of_texts.squares.sqrt()))
            for weight, total in zip(self.weights, self._sums, strict=True):
                if weight in sums:
                    total += sums[weight]
            return
        loss.backward()
        each = [self._of_texts(weight) for weight in self.weights]
        held = [gradients for gradients in each if gradients is not None]
        squares = [each.flatten(1).to(finest(each.device)).square().sum(1) for each in held]
        scales = self._factors(torch.stack(squares).sum(0).sqrt())
        for total, gradients in zip(self._sums, each, strict=True):
            if gradients is not None:
                total += torch.einsum("n,n...->...", scales.to(gradients), gradients)

    def _factors(self, norms: Tensor) -> Tensor:
        """Return the factors of gradients with such norms (n,), and count those within C."""
        self._surplus += float(((norms <= self._of.clip).to(norms) - 0.5).sum())
        return scaled(norms, self._of.clip, self._of.how.clipping)

    def end(self) -> None:
        """Add the noise, and divide by the units of a batch on average."""
        of = self._of
        for weight, total in zip(self.weights, self._sums, strict=True):
            noise = of.noise * of.clip * torch.randn_like(total)
            weight.grad = (total + noise) / of.expected
        if of.counts:
            of.follow(self._surplus)

    def _of_texts(self, weight: torch.nn.Parameter) -> Tensor | None:
        """Return a weight's gradient for each unit (n, …); None: no text of this part has one."""
        found = weight.grad[None] if weight.grad is not None else None
        if self._of.by_layer:
            found = getattr(weight, "grad_sample", None)
            if found is not None:
                found = found.float()  # of bfloat16 a sum rounds by how many texts there are
            if weight.grad is not None and (found is None or len(found) != self.texts):
                raise RaptError(
                    f"private: got a weight of {tuple(weight.shape)} whose gradient is not told "
                    "apart by text, expected one of a layer that reads each text by itself."
                )
        _forget(weight)
        return found


def _some(rows: list[int], generator: torch.Generator) -> list[int]:
    """Return an author's rows, at most so many of them."""
    if len(rows) <= TEXTS_OF_AUTHOR:
        return rows
    order = torch.randperm(len(rows), generator=generator)[:TEXTS_OF_AUTHOR]
    return [rows[at] for at in order.tolist()]


def beside_count(total: float, counts: float) -> float:
    """Return the noise of a sum that leaves room for a count, so that both cost what `total` does.

    Args:
        total: standard deviation over the sensitivity, of both together (Andrew et al., 2021).
        counts: standard deviation of the count's noise; its sensitivity is ½.
    """
    return float((total**-2 - (2 * counts) ** -2) ** -0.5)


def followed(clip: float, share: float) -> float:
    """Return the next norm, given the share of what was within the last one (Andrew et al., 2021).

    Where more than the quantile is, the norm falls.
    """
    return clip * exp(-PACE * (share - QUANTILE))


def scaled(norms: Tensor, clip: float, clipping: Clipping) -> Tensor:
    """Return the factors of gradients with such norms (n,): no gradient is then longer than clip.

    Args:
        norms: of the texts' gradients, float64.
        clip: C.
        clipping: `automatic` is AUTO-S (Bu et al., 2023), `stable` DP-PSAC (Xia et al., 2023).
    """
    if clipping == "automatic":
        return clip / (norms + GAMMA)
    if clipping == "stable":
        return clip / (norms + RADIUS / (norms + RADIUS))
    return (clip / norms).clamp(max=1.0)  # of 0 as well


def _forget(weight: torch.nn.Parameter) -> None:
    weight.grad = None
    if hasattr(weight, "grad_sample"):
        weight.grad_sample = None
        vars(weight).pop("_current_grad_sample", None)
        weight._forward_counter = 0  # type: ignore[attr-defined]
