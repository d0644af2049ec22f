"""Privatizers of whole texts: one vector for each, or another text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.base import NO_PROMISE, AnyPrivatizer, PreparedText, Stated, as_float32
from rapt.privacy.budget import distances_of_texts, farthest
from rapt.privacy.mechanisms import RewritingMechanism, TextVectorMechanism
from rapt.privacy.mechanisms.base import Rewriter, Space, Vectors
from rapt.privacy.mechanisms.claim import ONE_WORD, Bound
from rapt.privacy.mechanisms.hidden_states import HiddenStateMechanism
from rapt.privacy.privatizer import Privatizer, WordVectorPrivatizer
from rapt.privacy.released import (
    HiddenStates,
    NewText,
    Released,
    TextVector,
    Words,
    WordVectors,
)
from rapt.privacy.streams import fresh
from rapt.utils.batches import by_size

AT_ONCE = 1 << 14  # words that are encoded together: a model reads texts of one length fastest
SHORTER = "Shorter texts than those whose distances are given lie farther from each other."
ENCODER = (
    "What the encoder was made from: nothing here checks that it is public, that it was not tuned "
    "on these texts, and that it reads each text by itself."
)


Whole = TypeVar("Whole", bound=TextVectorMechanism | RewritingMechanism)


class WholeTextPrivatizer(AnyPrivatizer[Whole]):
    """A mechanism that releases something for a text as a whole: no word has a fate."""

    @property
    def bound(self) -> Bound:
        """The bound of a text."""
        return self.claim.at(self.eta, self.mechanism.metric, 1)

    @cached_property
    def max_loss(self) -> float:
        """See `AnyPrivatizer`: of one of a text's units, against texts of the table's words."""
        most = self.mechanism.claim.metric.largest
        if most is not None:
            return self.bound.loss(most(self.dimension))
        space = self.mechanism.candidates(self.table)
        if not self.bound.proven or space is None:
            return math.inf
        # A mean of words lies no farther from another than two words do.
        return self.bound.loss(farthest(self.mechanism, space))

    def units(self, text: PreparedText) -> int:
        """Count the units of a text over which its loss adds up, at least 1."""
        if self.claim.domain == ONE_WORD:
            return max(1, len(text.words))
        if self.mechanism.claim.metric.largest is not None:
            return 1
        vectors = self.mechanism.units(text.words, self.table)
        return 1 if vectors is None else max(1, len(vectors))

    def loss_between(self, one: PreparedText, other: PreparedText) -> tuple[float, float]:
        """See `AnyPrivatizer`; a claim of one word counts once for each that differs."""
        vectors = [self.encoded([text.words]) for text in (one, other)]
        if vectors[0].shape != vectors[1].shape:
            return NO_PROMISE
        space = Space(self.table.vectors, self.table.frequency)
        (distance,) = self.mechanism.distance(space, *vectors)
        steps = 1
        if self.claim.domain == ONE_WORD:
            if len(one.words) != len(other.words):
                return NO_PROMISE
            steps = sum(a != b for a, b in zip(one.words, other.words, strict=True))
        return steps * self.bound.loss(float(distance)), steps * self.bound.delta

    def stated(self) -> Stated:
        """Return what a statement says of each text."""
        gaps = [*self.releases.gaps, SHORTER]
        return Stated("every text", "releases of a text", "", gaps)

    def text(
        self,
        words: Sequence[str],
        pos: Sequence[str],
        identifiers: Iterable[str | None] = (),
        noise_source: Sequence[int] | None = None,
        *,
        stream: Callable[[], np.random.Generator] = fresh,
    ) -> PreparedText:
        """Take the words of a text as they are: the mechanism sees them all."""
        return PreparedText(words, [0] * len(words), stream)

    def encoded(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Return the vectors by which the claim compares texts, (n, k)."""
        return self.mechanism.encode(texts, self.table)

    @cached_property
    def distances(self) -> dict[str, float]:
        """Typical and largest distances of texts: `rapt.privacy.budget.distances_of_texts`."""
        return distances_of_texts(self.mechanism, self.table, self.encoded)


class TextVectorPrivatizer(WholeTextPrivatizer[TextVectorMechanism]):
    """A mechanism that releases one vector for a text."""

    unit: ClassVar[type[TextVector]] = TextVector

    @cached_property
    def dimension(self) -> int:
        """The dimension of the vector."""
        return self.encoded([[]]).shape[1]

    def stated(self) -> Stated:
        """Return what a statement says of each text, and of an encoder of the mechanism's own."""
        stated = super().stated()
        if self.mechanism.is_from_table:
            return stated
        return stated._replace(not_covered=[*stated.not_covered, ENCODER])

    def release(self, texts: Iterable[PreparedText]) -> Iterator[TextVector]:
        """Release the vector of each text.

        Raises:
            RaptError: float32 cannot represent a number of a released vector exactly.
        """
        for some in by_size(texts, lambda text: 1 + len(text.words), AT_ONCE):
            words, streams = [text.words for text in some], [text.stream() for text in some]
            for noisy in self.mechanism.release_texts(words, streams, self.table, self.eta):
                yield self.unit.of(as_float32(noisy, self))

    def originals(self, texts: Sequence[PreparedText]) -> list[Vectors]:
        """Return the vector of each text, (1, k)."""
        return [*self.encoded([text.words for text in texts])[:, None]]

    def unprotected(self, words: Sequence[str]) -> TextVector:
        """Return a text as it is, in the form of a release."""
        return TextVector.of(self.encoded([words]).astype(np.float32))

    def is_possible(self, text: PreparedText, column: str, value: Any) -> bool:
        """Whether a vector can be released: it is of this dimension, and finite."""
        return value is not None and len(value) == self.dimension and bool(np.isfinite(value).all())


class HiddenStatePrivatizer(TextVectorPrivatizer):
    """A mechanism that releases hidden states of a text."""

    unit = HiddenStates
    mechanism: HiddenStateMechanism

    @cached_property
    def dimension(self) -> int:
        """The dimension of a state."""
        return self.mechanism.states([[]], self.table)[0].shape[1]

    def originals(self, texts: Sequence[PreparedText]) -> list[Vectors]:
        """Return the states of each text before the noise, (n, d)."""
        return list(self.mechanism.states([text.words for text in texts], self.table))

    def places_of_words(self, text: PreparedText) -> NDArray[np.int64]:
        """See `AnyPrivatizer`: of a word of several tokens the first one's."""
        return self.mechanism.places_of_words(text.words)

    def unprotected(self, words: Sequence[str]) -> HiddenStates:
        """Return a text as it is, in the form of a release."""
        (states,) = self.mechanism.states([words], self.table)
        return HiddenStates.of(states.astype(np.float32))

    def is_possible(self, text: PreparedText, column: str, value: Any) -> bool:
        """Whether states can be released: they are of this dimension, and finite."""
        shaped = value is not None and value.ndim == 2 and value.shape[1] == self.dimension
        return shaped and bool(np.isfinite(value).all())


class RewritingPrivatizer(WholeTextPrivatizer[RewritingMechanism]):
    """A mechanism that writes another text."""

    @cached_property
    def _writer(self) -> Rewriter:
        return self.mechanism.writer(self.table, self.eta)

    def release(self, texts: Iterable[PreparedText]) -> Iterator[NewText]:
        """Write a new text for each; at η = inf it is the text itself."""
        for text in texts:
            words = list(text.words)
            yield NewText(self._writer(words, text.stream()) if np.isfinite(self.eta) else words)

    def unprotected(self, words: Sequence[str]) -> NewText:
        """Return a text as it is, in the form of a release."""
        return NewText(list(words))


# The privatizer of the mechanisms that release a unit.
PRIVATIZERS: dict[type[Released], type[AnyPrivatizer[Any]]] = {
    Words: Privatizer,
    WordVectors: WordVectorPrivatizer,
    HiddenStates: HiddenStatePrivatizer,
    TextVector: TextVectorPrivatizer,
    NewText: RewritingPrivatizer,
}
