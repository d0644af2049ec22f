"""Synthesizers: sections of params.yaml, and what a private data set is made into.

A synthesizer writes new texts of each class. It is (ε, δ)-differentially private for one training
text: data sets are neighbours if one has a text, with its label, more than the other.

The sizes of the classes come first. Published code takes them from the private data as they are,
which no guarantee covers; here they have noise that is paid for, or are equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import expm1
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, PositiveInt

from rapt.param_types import Model, Section, Sha256, problem
from rapt.text.characters import visible
from rapt.tuning.config import Precision, Sampling
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LABEL, TEXT = "{label}", "{text}"


class PrivateTexts(NamedTuple):
    """The training split of a task.

    Attributes:
        texts: as they are.
        labels: class of each, int64 (n,).
        names: of the classes.
    """

    texts: Sequence[str]
    labels: NDArray[np.int64]
    names: Sequence[str]

    def of(self, rows: NDArray[np.int64]) -> PrivateTexts:
        """Return some of the texts, by their rows."""
        return PrivateTexts([self.texts[row] for row in rows], self.labels[rows], self.names)


class Made(NamedTuple):
    """What a synthesizer made.

    Attributes:
        texts: of each class; none is empty.
        spent: what the guarantee rests on, as noise and rounds.
        empty: how many more had no word, and were left out.
        checkpoint: of the training, for whoever keeps the copy to remove then.
    """

    texts: list[list[str]]
    spent: dict[str, float]
    empty: int
    checkpoint: Path | None = None


class Draw(NamedTuple):
    """One copy of a synthetic data set, whose random numbers its names decide.

    Attributes:
        epsilon: of the whole copy.
        folder: of the language model.
        seed: of the experiment.
        names: of the copy, as its number, the task and the synthesizer.
    """

    epsilon: float
    folder: Path
    seed: int
    names: tuple[str | int, ...]

    def stream(self, *names: str | int) -> np.random.Generator:
        """Return the generator of a part of the copy."""
        from rapt.privacy.streams import stream

        return stream(self.seed, *self.names, *names)

    def seed_torch(self) -> None:
        """Seed PyTorch's generator, and compute with one thread: sums depend on their number."""
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(int(self.stream("torch").integers(2**63)))


def holds(*marks: str) -> AfterValidator:
    """Require marks in a prompt, in the place of which something is put."""

    def checked(value: str) -> str:
        for mark in marks:
            if mark not in value:
                raise problem(f"got {value!r}, expected a prompt with {mark} in it.")
        return value

    return AfterValidator(checked)


class Synthesizer(Section, ABC):
    """How new texts are made of private ones; `type` is its name, its fields its parameters."""

    type: str
    model: Model = Field(
        description="a causal language model that has read none of the texts, named as in backbones"
    )
    sha256: Sha256 | None = Field(None, description="of its model.safetensors; null: not checked")
    delta: float = Field(1e-5, gt=0, lt=1, description="below 1 / the number of training texts")
    texts: PositiveInt = Field(1000, description="that are made, of all classes together")
    counts: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of ε that the sizes of the classes cost; 0: all classes are equally "
        "large",
    )
    canaries: int = Field(
        0,
        ge=0,
        description="training texts of which a fair coin leaves each out: which of them the "
        "synthetic texts betray is a lower bound on ε; 0: all texts are used",
    )
    prompt: Annotated[str, holds(LABEL)] = Field(
        LABEL, description="public words before a text of a class, whose name takes {label}'s place"
    )
    sampling: Sampling = Sampling()
    at_once: PositiveInt = Field(32, description="texts that are written side by side")
    precision: Precision = Field("float32", description="of the model's matrix products")

    @abstractmethod
    def write(self, private: PrivateTexts, sizes: Sequence[int], draw: Draw) -> Made:
        """Write as many texts of each class as `sizes` says.

        Args:
            private: the training texts.
            sizes: of the classes.
            draw: of it, `epsilon` is what the texts may spend beside the sizes.

        Raises:
            RaptError: the texts are too few, or the model does not suit.
        """


def synthesize(how: Synthesizer, private: PrivateTexts, draw: Draw) -> Made:
    """Make one copy of a synthetic data set, (ε, δ)-differentially private for one text.

    The sizes of the classes are (aε, 0)-private, the texts (ε − aε, δ), with a = `how.counts`:
    together they are (ε, δ)-private (basic composition).

    Raises:
        RaptError: δ is too large for so few texts, or as `Synthesizer.write`.
    """
    if how.delta >= 1 / max(1, len(private.texts)):
        raise RaptError(
            f"delta: got {how.delta:g} for {len(private.texts)} texts, expected less than "
            f"{1 / max(1, len(private.texts)):.2g}. At more a synthesizer that copies one text "
            "would do."
        )
    cost = how.counts * draw.epsilon
    counts = np.bincount(private.labels, minlength=len(private.names))
    sizes = shared_out(how.texts, noisy(counts, cost, draw.stream("counts")))
    return how.write(private, sizes, draw._replace(epsilon=draw.epsilon - cost))


def noisy(counts: NDArray[np.int64], epsilon: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return counts with two-sided geometric noise (Ghosh et al., 2009), none below 0.

    A text changes one count by 1, so they are (ε, 0)-private. At ε 0 all are 1.

    Args:
        counts: int64 (classes,).
        epsilon: ε.
        rng: of the noise.
    """
    if not epsilon:
        return np.ones_like(counts)
    stop = -expm1(-epsilon)
    noise = rng.geometric(stop, len(counts)) - rng.geometric(stop, len(counts))
    return np.maximum(counts + noise, 0)


def shared_out(total: int, counts: NDArray[np.int64]) -> list[int]:
    """Share a number out in proportion to counts, by the largest remainders; equally if all are 0.

    Args:
        total: the sum of what is returned.
        counts: int64 (classes,), none below 0.
    """
    weights = counts if counts.any() else np.ones_like(counts)
    exact = total * weights / weights.sum()
    shares = np.floor(exact).astype(np.int64)
    last = np.argsort(shares - exact, kind="stable")[: total - int(shares.sum())]
    shares[last] += 1
    return [int(share) for share in shares]


def of_class(how: Synthesizer, names: Sequence[str]) -> list[str]:
    """Return the prompt of each class."""
    return [how.prompt.replace(LABEL, name) for name in names]


def without_empty(texts: Sequence[Sequence[str]], spent: Mapping[str, float]) -> Made:
    """Return what was made, without the texts that have no word."""
    kept = [[text for text in own if visible(text).strip()] for own in texts]
    empty = sum(map(len, texts)) - sum(map(len, kept))
    return Made(kept, dict(spent), empty)
