"""Private prediction: an answer tells little about any one training text, whoever asks.

Teachers are the seeds of a cell, each tuned on texts that no other has (`train.shards`). Another
text in the place of one changes one teacher, and so one vote, or one of the averaged probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, expm1
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, ValidationError

from rapt import param_errors
from rapt.param_types import Section
from rapt.serving.budget import Budget
from rapt.serving.protocol import Text, check, contract_of, served_kind
from rapt.tuning.inference_spec import NAME, Contract, Prediction
from rapt.utils import files
from rapt.utils.errors import RaptError, check_place

if TYPE_CHECKING:
    from rapt.serving.model import Adapted

SYSTEM = SystemRandom()  # the operating system's entropy, which no seed repeats


class PrivatePrediction(Section):
    """What all answers of a set of teachers may tell together about any one training text."""

    epsilon: float = Field(gt=0, le=1e6, description="that all queries spend together")
    delta: float = Field(1e-5, gt=0, lt=1, description="below 1 / the training texts")
    queries: PositiveInt = Field(description="that share ε: the more they are, the more noise")
    ledger: Path | None = Field(
        None, description="file of what was spent; null: CELL.budget.jsonl beside the folder"
    )


def checked(given: Mapping[str, Any]) -> PrivatePrediction:
    """Return what a command was given.

    Raises:
        RaptError: a value is missing or out of bounds.
    """
    try:
        return PrivatePrediction.model_validate(given)
    except ValidationError as error:
        raise RaptError(param_errors.lines(error, given, PrivatePrediction)[0]) from None


@dataclass(frozen=True)
class Law:
    """How answers are drawn, and what a query costs.

    Attributes:
        cost: of a query: μ² of Gaussian differential privacy for votes, ε for texts. Both add up.
        most: that all queries may cost.
        delta: δ.
        noise: standard deviation on each class' votes; None: answers are texts.
        weight: λ, of the teachers' mean in the mixture that a token is drawn from, else None.
    """

    cost: float
    most: float
    delta: float
    noise: float | None = None
    weight: float | None = None


def votes(asked: PrivatePrediction) -> Law:
    """Return the law of noisy votes: GNMax (Papernot et al., 2018, arXiv 1802.08908).

    A teacher's vote moves from one class to another: the counts change by √2. So T queries with
    noise σ are one Gaussian of μ = √(2T) / σ (Dong et al., 2022), exactly.
    """
    from dp_accounting import get_sigma_gaussian  # takes a second to import

    most = get_sigma_gaussian(asked.epsilon, asked.delta) ** -2
    cost = most / asked.queries
    return Law(cost, most, asked.delta, noise=(2 / cost) ** 0.5)


def mixture(asked: PrivatePrediction, tokens: int, teachers: int, vocabulary: int) -> Law:
    """Return the law of texts whose tokens are drawn from a mixture (Majmudar et al., 2022).

    Of V tokens one is drawn from λp + (1 − λ) / V, where p is the mean over K teachers. Its ε is
    ln(1 + λV / (K(1 − λ))), as one teacher may find a token certain or impossible. An answer costs
    what its `tokens` could, however soon it ends. ε adds up over tokens and queries, and δ is 0.
    """
    cost = asked.epsilon / asked.queries
    loss = cost / tokens
    mine, others = -teachers * expm1(-loss), vocabulary * exp(-loss)
    return Law(cost, asked.epsilon, 0.0, weight=mine / (mine + others))


def noisy_choice(counts: NDArray[np.float64], noise: float, random: SystemRandom = SYSTEM) -> int:
    """Return the class with the most votes (classes,), each count with Gaussian noise."""
    return int(np.argmax([count + random.normalvariate(0, noise) for count in counts]))


def mixed(each: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return a token's probabilities (vocabulary,) in the mixture of teachers' (teachers, …)."""
    return weight * each.mean(axis=0) + (1 - weight) / each.shape[1]


def drawn_token(each: NDArray[np.float64], weight: float, random: SystemRandom = SYSTEM) -> int:
    """Draw a token from the mixture."""
    sums = mixed(each, weight).cumsum()
    place = np.searchsorted(sums, random.random() * sums[-1], side="right")
    return int(min(place, len(sums) - 1))


class Teachers:
    """A provider whose answers are drawn from those of teachers, for as long as a budget lasts."""

    def __init__(
        self, teachers: Sequence[Adapted], law: Law, asked: PrivatePrediction, budget: Budget
    ) -> None:
        """Take loaded teachers, whose contracts are those of `contracts`."""
        self._teachers, self._law, self._asked, self._budget = teachers, law, asked, budget

    @property
    def contract(self) -> Contract:
        """The contract that texts must meet, with the queries that are left now."""
        asked, law, left = self._asked, self._law, self._budget.left()
        stated = Prediction(asked.epsilon, law.delta, asked.queries, left, law.noise, law.weight)
        return replace(self._teachers[0].contract, shard=None, prediction=stated)

    def answer(self, texts: list[Text]) -> Sequence[Any]:
        """Return the class of each text as a probability of 1, or a text.

        Whatever happens after the queries are paid for, they stay so.

        Raises:
            BudgetSpent: fewer queries are left than texts.
            RaptError: a text is not as the contract says.
        """
        first, noise, weight = self._teachers[0], self._law.noise, self._law.weight
        check(texts, first.contract)
        self._budget.spend(len(texts))
        if weight is not None:
            others = self._teachers[1:]
            return first.sampled(texts, others, partial(drawn_token, weight=weight))
        assert noise is not None
        answers = np.array([teacher.answer(texts) for teacher in self._teachers])
        classes = np.eye(answers.shape[2])
        counts = classes[answers.argmax(axis=2)].sum(axis=0)
        return [classes[noisy_choice(row, noise)].tolist() for row in counts]


def contracts(cell: Path) -> dict[Path, Contract]:
    """Return the contract of each teacher of a cell, by the seed's folder.

    Raises:
        RaptError: the seeds in the folder are not all teachers of one cell, tuned on disjoint
            texts, or they cannot answer privately.
    """
    found = {path.parent: contract_of(path.parent) for path in sorted(cell.glob(f"seed-*/{NAME}"))}
    if len(found) < 2:
        raise RaptError(
            f"adapter: got {str(cell)!r} with {len(found)} tuned seeds, expected a cell's folder "
            "with two or more, models/adapters/CELL. Tune one with train.shards."
        )
    every = list(found.values())
    shards = [one.shard for one in every if one.shard]
    numbers = sorted(shard.number for shard in shards)
    alike = [replace(one, shard=None, training={}) for one in every]
    if (
        numbers != list(range(len(every)))
        or {(shard.cell, shard.of) for shard in shards} != {(shards[0].cell, len(every))}
        or any(one != alike[0] for one in alike)
    ):
        raise RaptError(
            f"adapter: got seeds in {str(cell)!r} that are not all teachers of one cell, each with "
            f"texts of its own, expected such. Tune it with train.shards: {len(every)}, by a "
            "method without plain tokens."
        )
    first, kind = every[0], served_kind(every[0])
    if first.denoiser:
        raise RaptError(
            f"adapter: got teachers with the denoiser {first.denoiser}, which knows the texts of "
            "all, expected none."
        )
    if not (kind.has_classes or kind.is_language_model):
        raise RaptError(
            f"adapter: got teachers of kind {kind.name}, expected classes or texts to answer."
        )
    return found


def teachers(cell: Path, asked: PrivatePrediction) -> Teachers:
    """Load the teachers in a cell's folder, models/adapters/CELL, with their budget.

    Raises:
        RaptError: see `contracts` and `Budget`; or δ is too large for so few texts.
    """
    found = contracts(cell)
    from rapt.serving.model import Adapted

    loaded = [Adapted(folder) for folder in found]
    for other in loaded[1:]:
        other.share_weights(loaded[0])
    first = loaded[0]
    if first.kind.has_classes:
        texts = sum(contract.shard.texts for contract in found.values() if contract.shard)
        if asked.delta >= 1 / texts:
            raise RaptError(
                f"delta: got {asked.delta:g} for {texts} texts, expected less than "
                f"{1 / texts:.2g}. At more, answers that publish one text would do."
            )
        law = votes(asked)
    else:
        tokens = first.contract.decoding
        assert tokens
        law = mixture(asked, tokens.max_new_tokens, len(loaded), first.vocabulary)
    place = cell.resolve()
    path = asked.ledger or place.with_name(f"{place.name}.budget.jsonl")
    check_place("ledger", path)
    if path.resolve().is_relative_to(place):  # by whose content the budget knows its teachers
        raise RaptError(
            f"ledger: got {str(path)!r} inside the adapter's folder, expected a file beside it."
        )
    budget = Budget(path, files.sha256(cell), law.cost, law.most)
    return Teachers(loaded, law, asked, budget)
