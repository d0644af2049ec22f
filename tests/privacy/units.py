"""A mechanism of each unit, for suites that every mechanism has to pass."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.mechanisms import MECHANISMS, Mechanism, RewritingMechanism
from rapt.privacy.mechanisms.base import Rewriter, parameter
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.conftest import NOUNS, VERBS

TEXTS = [["Nouna", "the", "verbb", "unknown"], [], [*NOUNS, *VERBS], ["nounb"] * 3]
# What the published constants of truncated-gumbel need on these words.
ETAS = {"truncated-gumbel": 200.0}


@dataclass(frozen=True)
class Doubled(RewritingMechanism):
    """Each word once or twice, or one of the table."""

    name = "doubled"
    source = "a test"
    share: float = parameter(0.5, "of the words that stand twice")

    def writer(self, table: EmbeddingTable, eta: float) -> Rewriter:
        def write(words: Any, rng: Any) -> list[str]:
            twice = [word for word in words for _ in range(1 + (rng.random() < self.share))]
            return [*twice, table.words[rng.integers(len(table.words))]]

        return write


KINDS: dict[str, type[Mechanism]] = {**MECHANISMS.data, "doubled": Doubled}


def made(name: str, table: EmbeddingTable, eta: float | None = None) -> AnyPrivatizer[Any]:
    """A mechanism at an η that suits it."""
    kind = KINDS[name]
    categories = ["noun", "verb"] if kind.categories == "required" else None
    how = kind(size=4) if name == "custext" else kind()  # type: ignore[call-arg]
    return how.privatizer(table=table, eta=eta or ETAS.get(name, 2.0), categories=categories)


def prepared(privatizer: AnyPrivatizer[Any]) -> list[PreparedText]:
    """The texts, each with a stream of its own."""
    return [
        privatizer.text(words, ["NOUN"] * len(words), stream=partial(stream, 0, number))
        for number, words in enumerate(TEXTS)
    ]
