"""Privatizing tagged texts word by word, within a scheme of categories."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.privacy.base import NO_PROMISE, AnyPrivatizer, PreparedText, Stated, as_float32
from rapt.privacy.budget import distances, farthest
from rapt.privacy.categories import ALL, VERBATIM
from rapt.privacy.fates import NOISE, PLACEHOLDER, SHARED, verbatim
from rapt.privacy.mechanisms import (
    Sampler,
    Space,
    WordMechanism,
    WordVectorMechanism,
)
from rapt.privacy.mechanisms.claim import Bound
from rapt.privacy.neighbours.threads import blas_threads, side_by_side
from rapt.privacy.released import Words, WordVectors
from rapt.privacy.streams import fresh
from rapt.text.table import EmbeddingTable, Vectors
from rapt.utils.batches import by_size
from rapt.utils.errors import RaptError

NAME = "PROPN"
WORDS = 1024  # words that a thread privatizes at a time: their noise is 6 MiB at d = 768
WORDS_OF_VECTORS = (
    " M releases the word's noisy vector. The word that stands beside it is the table's nearest to "
    "that vector, found from it alone (post-processing), and costs nothing more."
)
WORDS_UNKNOWN = (
    " M releases a word over the whole table if the table does not know it, or if it is of the "
    "category other. Whether the table knows it is not hidden."
)


class Privatizer(AnyPrivatizer[Any]):
    """A mechanism that turns each word into a word, within a scheme of categories.

    Attributes:
        candidates: int64, the rows that the mechanism can release: V_r.
    """

    def __init__(
        self,
        *,
        table: EmbeddingTable,
        mechanism: WordMechanism | WordVectorMechanism,
        eta: float,
        categories: Sequence[str] | None = None,
    ) -> None:
        """Prepare the mechanism in each group; see `AnyPrivatizer`."""
        super().__init__(table=table, mechanism=mechanism, eta=eta, categories=categories)
        groups = self.scheme.groups(table.pos)
        self.candidates: NDArray[np.int64] = np.unique(np.concatenate(groups))
        # The last group is that of words which the table does not know, and of OTHER.
        self._unknown = len(groups)
        self._groups = [*groups, np.arange(len(table.words))]
        self._words = [frozenset(table.words[row] for row in rows) for rows in self._groups]
        self._prepare([] if np.isinf(eta) else self.spaces())

    def _prepare(self, spaces: Sequence[Space]) -> None:
        self._samplers = [self.mechanism.sampler(space, self.eta) for space in spaces]

    def spaces(self) -> list[Space]:
        """The candidates of each group of the scheme."""
        if self.scheme.categories is None:
            return [self._whole()]
        return [
            Space(self.table.vectors[rows], self.table.frequency[rows])
            for rows in self._groups[: self._unknown]
        ]

    def _whole(self) -> Space:
        """The whole table, without a copy: it may be memory-mapped."""
        return Space(self.table.vectors, self.table.frequency)

    @cached_property
    def _sampler_of_unknown(self) -> Sampler:
        """The sampler of words that the table does not know, made for the first of them."""
        return self.mechanism.sampler(self._whole(), self.eta)

    @cached_property
    def distances(self) -> dict[str, float]:
        """Typical and largest distances between candidates: `rapt.privacy.budget.distances`."""
        return distances(self.mechanism, self.spaces())

    @property
    def bound(self) -> Bound:
        """The bound of a word; unknown words may become any of the table."""
        return self.claim.at(self.eta, self.mechanism.metric, len(self.table.words))

    def loss_between(self, one: PreparedText, other: PreparedText) -> tuple[float, float]:
        """See `AnyPrivatizer`: the losses of the words that differ add up."""
        if not np.array_equal(one.sources, other.sources):
            return NO_PROMISE
        loss = delta = 0.0
        for at in np.unique(one.sources):  # a word that shares its noise costs nothing
            if (one.words[at], one.groups[at]) == (other.words[at], other.groups[at]):
                continue
            group = one.groups[at]
            if group != other.groups[at] or group == VERBATIM:
                return NO_PROMISE
            space = self._whole() if group == self._unknown else self.spaces()[group]
            vectors = self.table.embed([one.words[at], other.words[at]])
            (distance,) = self.mechanism.distance(space, vectors[:1], vectors[1:])
            loss, delta = loss + self.bound.loss(float(distance)), delta + self.bound.delta
        return loss, delta

    def stated(self) -> Stated:
        """Return what a statement says of each word."""
        more = "" if self.scheme.categories in (None, (ALL,)) else WORDS_UNKNOWN
        return Stated(self.scheme.scope(), "words", more, self.scheme.not_covered())

    @cached_property
    def max_loss(self) -> float:
        """See `AnyPrivatizer`: of a word with noise, against any other word of the table.

        Under any scheme a word may get noise from the whole table, if the table does not know it.
        A metric may differ from group to group.
        """
        groups = [] if self.scheme.categories is None else self.spaces()
        spaces = [self._whole(), *groups]
        return self.bound.loss(max(farthest(self.mechanism, space) for space in spaces))

    def words_of(self, group: int) -> frozenset[str]:
        """The words that a word of this group can become."""
        return self._words[group]

    def rows_of(self, group: int) -> NDArray[np.int64]:
        """The table rows that a word of this group can become, int64."""
        return self._groups[group]

    def text(
        self,
        words: Sequence[str],
        pos: Sequence[str],
        identifiers: Iterable[str | None] = (),
        noise_source: Sequence[int] | None = None,
        *,
        stream: Callable[[], np.random.Generator] = fresh,
        keep_identifiers: bool = False,
        hidden: Collection[str] = (),
    ) -> PreparedText:
        """Decide what becomes of each word of a tagged text.

        Under a scheme of categories, identifiers become placeholders first. A word of the scheme's
        categories gets noise within its group. Of the others, those that the table does not know
        get noise from the whole table: other scripts, other languages, rare names. What is left
        stands as it is.

        Args:
            words: in order.
            pos: the tag of each in its context.
            identifiers: the kind of identifier that each is a part of; None: it is none.
            noise_source: for each word the index of the one whose noise it shares, or NO_NOISE: it
                stands as it is. None: each word is on its own.
            stream: makes the text's random generator.
            keep_identifiers: whether identifiers get no placeholder: those that get no noise stand
                as they are.
            hidden: kinds of identifiers that become placeholders whatever the scheme.
        """
        kinds = list(identifiers) or [None] * len(words)
        groups = [self.scheme.group_of(tag) for tag in pos]
        shown = list(words)
        for at, of in enumerate(noise_source or ()):
            # A word is tagged in each place: it is protected if it is in any.
            if of >= 0 and groups[of] == VERBATIM:
                groups[of] = groups[at]
        if np.isfinite(self.eta):
            for at, (word, kind) in enumerate(zip(words, kinds, strict=True)):
                shared = at if noise_source is None else noise_source[at]
                if shared < 0:
                    groups[at] = VERBATIM
                elif shared < at:
                    groups[at] = groups[shared]
                    if shown[shared] != words[shared]:  # a placeholder
                        shown[at] = shown[shared]
                if shared != at:
                    continue
                if noise_source is not None and groups[at] != VERBATIM:
                    continue  # an entity's number: only noise lets the user put it back
                if kind and (kind in hidden or (self.hides_identifiers and not keep_identifiers)):
                    groups[at], shown[at] = VERBATIM, f"<{kind}>"
                elif not kind:
                    groups[at] = self.group_of(word, groups[at])
        fates = [
            self._fate(*each, noise_source is None or noise_source[at] == at)
            for at, each in enumerate(zip(words, shown, kinds, groups, strict=True))
        ]
        return PreparedText(shown, groups, stream, noise_source or (), fates)

    def _fate(self, word: str, shown: str, identifier: str | None, group: int, is_own: bool) -> str:
        if group != VERBATIM and math.isfinite(self.eta):
            return NOISE if is_own else SHARED
        return verbatim(word, identifier) if shown == word else PLACEHOLDER + shown.strip("<>")

    @property
    def hides_identifiers(self) -> bool:
        """Whether identifiers become placeholders: under a scheme of categories."""
        return self.scheme.categories is not None

    def is_name(self, word: str, tag: str) -> bool:
        """Whether a word is a proper noun by its tag; without one, by the table."""
        return tag == NAME if tag else NAME in self.table.tags(word)

    def group_of(self, word: str, group: int) -> int:
        """The group in which a word that is no identifier gets noise, given that of its tag."""
        return self._unknown if group == VERBATIM and not self.table.knows(word) else group

    def sampler(self, group: int) -> Sampler:
        """The sampler of a word mechanism at η over `rows_of(group)`."""
        return self._samplers[group] if group != self._unknown else self._sampler_of_unknown

    def groups_of_rows(self, rows: NDArray[np.int64]) -> list[int]:
        """The group that each of these table rows was drawn from: the first that holds it."""
        first = np.full(len(self.table.words), self._unknown if self.scheme.has_other else VERBATIM)
        for group in reversed(range(self._unknown)):
            first[self._groups[group]] = group
        return [int(group) for group in first[rows]]

    def privatize(self, texts: Iterable[PreparedText]) -> Iterator[list[str]]:
        """Release the words of each text, one for one; see `release`."""
        return (released.words for released in self.release(texts))

    def release(self, texts: Iterable[PreparedText]) -> Iterator[Words]:
        """Release the words of each text, one for one.

        A word of a group becomes a word of that group, be it in the table or not: an unknown word
        is always replaced. The words of one text take their randomness from its stream in order,
        also those released verbatim. So different schemes share the noise of each word.
        """
        if np.isinf(self.eta):
            yield from (Words(list(text.words), None, text.fates) for text in texts)
            return
        yield from self._batched(texts)

    def _batched(self, texts: Iterable[PreparedText]) -> Iterator[Any]:
        batches = by_size(texts, lambda text: len(text.words), WORDS)
        while some := list(islice(batches, blas_threads())):
            for released in side_by_side(self._release, some):
                yield from released

    def _release(self, batch: list[PreparedText]) -> list[Any]:
        words = np.array([word for text in batch for word in text.words], dtype=object)
        vectors = self.table.embed(list(words))
        ends = np.cumsum([len(text.words) for text in batch])[:-1]
        sources = _sources(batch, [0, *ends])
        self._replace(words, vectors[sources], sources, batch)
        parts = zip(np.split(words, ends), batch, strict=True)
        return [Words(list(part), None, text.fates) for part, text in parts]

    def unprotected(self, words: Sequence[str]) -> Words:
        """Return a text as it is, in the form of a release."""
        return Words(list(words))

    def is_possible(self, text: PreparedText, column: str, value: Any) -> bool:
        """Whether words can be released for a text: of each word's group, or verbatim."""
        if column != "words":
            return super().is_possible(text, column, value)
        if value is None or len(value) != len(text.words):
            return False
        every = zip(text.groups, text.words, value, strict=True)
        if np.isinf(self.eta):
            return all(before == after for _, before, after in every)
        return all(
            after in self.words_of(group) if group != VERBATIM else after == before
            for group, before, after in every
        )

    def _replace(
        self,
        words: NDArray[np.object_],
        vectors: Vectors,
        sources: NDArray[np.int64] | slice,
        batch: list[PreparedText],
    ) -> None:
        """Put in the place of each word what the mechanism of its group releases."""
        groups = np.array([group for text in batch for group in text.groups], dtype=np.int64)
        draws = np.concatenate(
            [
                self.mechanism.draw(text.stream(), len(text.words), self.table.dimension)
                for text in batch
            ]
        )[sources]
        for group in np.unique(groups[groups != VERBATIM]):
            chosen = groups == group
            at = slice(None) if chosen.all() else chosen  # a slice copies nothing
            released = self._groups[group][self.sampler(group)(vectors[at], draws[at])]
            words[at] = [self.table.words[row] for row in released]

    def replaced(self, before: Sequence[str], after: Sequence[str]) -> list[bool]:
        """Whether each word became another; its spelling in the vocabulary's form counts as it."""
        return [self.table.form(b) != a and b != a for b, a in zip(before, after, strict=True)]


class WordVectorPrivatizer(Privatizer):
    """A mechanism that releases a vector for each word, with the table's word nearest to it."""

    def stated(self) -> Stated:
        """Return what a statement says of each word: also that it follows from the vector."""
        return super().stated()._replace(more=WORDS_OF_VECTORS)

    def _prepare(self, spaces: Sequence[Space]) -> None:
        self._searches = [space.search() for space in spaces]

    def release(self, texts: Iterable[PreparedText]) -> Iterator[WordVectors]:
        """Release the vectors of each text, and the words nearest to them.

        Raises:
            RaptError: float32 cannot represent a number of a released vector exactly.
        """
        return self._batched(texts)

    def nearest(self, vectors: NDArray[np.float32]) -> NDArray[np.object_]:
        """The table's word nearest to each released vector (n, d), (n,): post-processing."""
        (search,) = self._searches
        return np.array([self.table.words[row] for row in search(vectors)], dtype=object)

    def _release(self, batch: list[PreparedText]) -> list[WordVectors]:
        words = np.array([word for text in batch for word in text.words], dtype=object)
        vectors = self.table.embed(list(words))
        ends = np.cumsum([len(text.words) for text in batch])[:-1]
        noisy = np.concatenate(
            [
                self.mechanism.release(own, text.stream(), self.eta)
                for own, text in zip(np.split(vectors, ends), batch, strict=True)
            ]
        )[_sources(batch, [0, *ends])]  # a word that shares its noise has one vector
        single = as_float32(noisy, self)
        if np.isfinite(self.eta):
            words = self.nearest(single)
        each = zip(np.split(words, ends), np.split(single, ends), batch, strict=True)
        return [WordVectors(list(some), own, text.fates) for some, own, text in each]

    def originals(self, texts: Sequence[PreparedText]) -> list[Vectors]:
        """Return the vectors of each text's words, or of the words whose noise they share."""
        return [self.table.embed(list(text.words))[text.sources] for text in texts]

    def is_possible(self, text: PreparedText, column: str, value: Any) -> bool:
        """Whether words, or vectors, can be released for a text: finite ones, one for each."""
        if column != "vectors":
            return super().is_possible(text, column, value)
        shape = (len(text.words), self.dimension)
        return value is not None and value.shape == shape and bool(np.isfinite(value).all())

    def unprotected(self, words: Sequence[str]) -> WordVectors:
        """Return a text as it is, in the form of a release."""
        return WordVectors(list(words), self.table.embed(words))


def of_words(privatizer: AnyPrivatizer[Any]) -> Privatizer:
    """Return a privatizer if its words stand one for one for those of a text.

    Raises:
        RaptError: they do not.
    """
    if not isinstance(privatizer, Privatizer):
        raise RaptError(
            f"mechanism: got {privatizer.mechanism.name}, which releases "
            f"{privatizer.releases.name}, expected one of which each word becomes a word."
        )
    return privatizer


def _sources(batch: Sequence[PreparedText], starts: Sequence[int]) -> NDArray[np.int64] | slice:
    """Return the sources of all texts; a slice, which copies nothing, where none share noise."""
    if not any(text.noise_source for text in batch):
        return slice(None)
    return np.concatenate([at + text.sources for at, text in zip(starts, batch, strict=True)])
