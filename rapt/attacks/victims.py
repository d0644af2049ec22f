"""The texts under attack, how many of their words an inversion recovers, and public text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt.attacks.base import Occurrence, Release, Texts, Vectors, by_text
from rapt.attacks.scores import Counts, Scores
from rapt.privacy import seeded
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.categories import VERBATIM
from rapt.text.mentions import entities
from rapt.text.table import EmbeddingTable
from rapt.text.tagged import Tagged


class Victims:
    """The original words of the texts under attack.

    Args:
        words: the words of each text.
        groups: of each word the group that it is replaced in (`Privatizer.text`); VERBATIM: it is
            not protected.
        form: maps a word to its spelling in the table; guessing that counts as guessing the word.
        entities: of each text the places of its entities; empty: entities play no part.
    """

    def __init__(
        self,
        words: Texts,
        groups: Sequence[Sequence[int]],
        form: Callable[[str], str],
        entities: Sequence[Sequence[range]] = (),
    ) -> None:
        self._form = form
        # Of all texts, and those that are protected with their groups.
        self._words = [form(word) for word in chain(*words)]
        self._is_protected = np.array(list(chain(*groups)), int) != VERBATIM
        pairs = zip(self._words, chain(*groups), strict=True)
        self._protected = [pair for pair in pairs if pair[1] != VERBATIM]
        # Of each text, int64 (n,).
        self.words = np.array([len(text) for text in words])
        self.protected = self._of_texts(self._is_protected)
        # Of each text, the places among all words of the protected words of each entity.
        starts = np.cumsum([0, *self.words])
        self._entities = [
            [places for one in own if (places := self._protected_of(start, one)).size]
            for start, own in zip(starts, entities, strict=False)
        ]

    def _protected_of(self, start: int, entity: range) -> NDArray[np.int64]:
        places = start + np.arange(entity.start, entity.stop)
        return places[self._is_protected[places]]

    def _of_texts(self, is_one: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the words of each text that are one."""
        texts = np.repeat(np.arange(len(self.words)), self.words)
        return np.bincount(texts[is_one], minlength=len(self.words))

    def score(self, guesses: Texts, errors: NDArray[np.float64] | None = None) -> Scores:
        """Compare the attacker's guesses, one for each word, with the originals.

        An entity is recovered if all its protected words are.

        An attack that guesses vectors has `squared_errors`, too.
        """
        pairs = zip(self._words, chain(*guesses), strict=True)
        right = np.array([self._form(guess) == word for word, guess in pairs], bool)
        ratios: dict[str, tuple[NDArray[Any], Counts]] = {
            "accuracy": (self._of_texts(right), self.words),
            "accuracy_protected": (self._of_texts(right & self._is_protected), self.protected),
        }
        if self._entities:
            whole = [sum(bool(right[one].all()) for one in own) for own in self._entities]
            every = np.array([len(own) for own in self._entities])
            ratios["accuracy_entities"] = (np.array(whole), every)
        if errors is not None:
            ratios["squared_error"] = (errors, self.protected)
        return Scores(ratios, {"empirical_privacy": "accuracy_protected"})

    @property
    def protected_words(self) -> Counter[Occurrence]:
        """How often each word is protected."""
        return Counter(self._protected)

    def squared_errors(
        self, vectors: Callable[[Vectors], Vectors], release: Release, table: EmbeddingTable
    ) -> NDArray[np.float64]:
        """Sum the squared errors of the protected words' vectors over each text, float64 (n,).

        The squared error of a vector is the mean over its components.

        Args:
            vectors: the attacker's guess of original vectors, from released ones.
            release: the release of these texts, word for word.
            table: the mechanism's embedding table.
        """
        seen, places = release.seen(table)
        guessed, errors = vectors(seen), np.zeros(len(self.words))
        texts = (by_text(release.words, each) for each in (places, self._words, self._is_protected))
        for i, (rows, words, is_protected) in enumerate(zip(*texts, strict=True)):
            each = ((guessed[rows] - table.embed(words)) ** 2).mean(axis=1)
            errors[i] = each[is_protected].sum()
        return errors

    def spread(self, table: EmbeddingTable) -> float:
        """Compute the squared error of always guessing the mean of the protected words' vectors."""
        counts = Counter(word for word, _ in self._protected)
        vectors, weights = table.embed(list(counts)), list(counts.values())
        mean = np.average(vectors, axis=0, weights=weights)
        return float(np.average(((vectors - mean) ** 2).mean(axis=1), weights=weights))

    def majority(self) -> float:
        """Compute the accuracy of always guessing the most frequent protected word."""
        counts = Counter(word for word, _ in self._protected)
        return max(counts.values(), default=0) / max(1, counts.total())


def victims_of(privatizer: AnyPrivatizer[Any], tagged: pa.Table) -> Victims:
    """Return the texts under attack, as the privatizer of their release prepares them."""
    return Victims(
        tagged["words"].to_pylist(),
        [text.groups for text in seeded.prepared(privatizer, tagged)],
        privatizer.table.form,
        list(_entities(tagged)),
    )


def spelled(privatizer: AnyPrivatizer[Any], tagged: pa.Table) -> list[list[str]]:
    """Return the words of texts as the table spells them."""
    return [list(map(privatizer.table.form, text)) for text in tagged["words"].to_pylist()]


def public(
    privatizer: AnyPrivatizer[Any], tagged: pa.Table, attacked: pa.Table
) -> list[PreparedText]:
    """Return texts as the privatizer prepares them, without those that are under attack."""
    theirs = set(map(tuple, spelled(privatizer, attacked)))
    is_new = [tuple(text) not in theirs for text in spelled(privatizer, tagged)]
    return list(seeded.prepared(privatizer, tagged.filter(pa.array(is_new))))


def with_values(rows: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the places of the texts that have a value of each attribute.

    A task with a label keeps the others, as it is tuned on them.
    """
    valued = np.ones(len(rows), bool)
    for name in names:
        valued &= rows[f"attribute_{name}"].is_valid().to_numpy()
    return np.flatnonzero(valued)


def _entities(tagged: pa.Table) -> Iterator[list[range]]:
    """Yield the places of the entities of each source of triples, where they are protected."""
    if seeded.MENTIONS in tagged.column_names:
        columns = ("words", "pos", "space_after", "identifier")
        yield from (entities(Tagged(*row)) for row in seeded.rows_of(tagged, *columns))
