"""The scores of the reconstruction, before it has learnt anything and after one step."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rapt.attacks.base import Public, Release
from rapt.attacks.bayesian import posterior
from rapt.attacks.reconstructor import LEAST
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import Channel
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import NONE, V, made, streamed

LENGTH = 20
UNIFORM = np.full((V, V), 50)


class Uniform:
    """Any word of the table for each word, but for every `kept`-th, which stays."""

    def __init__(self, words: list[str], kept: int) -> None:
        self._words, self._kept = words, kept

    def privatize(self, texts: Iterable[PreparedText]) -> Iterator[list[str]]:
        for text in texts:
            released = text.stream().choice(self._words, len(text.words)).tolist()
            released[:: self._kept] = text.words[:: self._kept]
            yield released


def random_texts(table: EmbeddingTable, n: int, seed: int) -> list[PreparedText]:
    picks = np.random.default_rng(seed).choice(table.words, (n, LENGTH))
    return streamed(picks.tolist(), seed)


def uniform(table: EmbeddingTable, kept: int, counts: NDArray[np.int64] = UNIFORM) -> Public:
    channel = Channel(np.arange(V), csr_array(counts))
    own: Any = Uniform(table.words, kept)
    return Public(table, np.zeros(V, np.int64), channel, random_texts(table, 200, 0), own)


def attack(encoder: Path, **how: Any) -> Any:
    full = {"model": str(encoder), "words": 100_000} | how
    return made("trained-reconstruction", **full)


def test_untrained_it_decides_by_channel_and_frequency(
    table: EmbeddingTable, encoder: Path
) -> None:
    """Also of a word that is no candidate, which is then taken as it is, and of a long text."""
    counts = np.random.default_rng(0).integers(1, 100, (V, V)) + 100 * np.eye(V, dtype=int)
    known = uniform(table, LENGTH, counts)
    release = [Release([[*table.words, "unseen"], [], table.words * 10])]
    found = posterior(known, "public", [])
    unmet = np.outer(found.overall, np.maximum(found.rest, LEAST))
    chances = (found.leads.toarray() + unmet) * table.counts(text.words for text in known.texts)
    likely = dict(zip(table.words, np.array(table.words)[chances.argmax(axis=1)], strict=True))
    bayes = [[likely.get(word, word) for word in text] for text in release[0].words]
    untrained = attack(encoder, words=1, learning_rate=1e-12, beam=1).fit(known, NONE, 0)
    assert untrained.words(release) == bayes
    few = attack(encoder, words=1, learning_rate=1e-12, candidates=3, beam=1).fit(known, NONE, 0)
    alone = Release([[word] for word in table.words])
    pairs = zip(alone.words, few.words([alone]), strict=True)
    others = {guess for (word,), (guess,) in pairs if guess != word}
    assert 0 < len(others) <= 3
    trained, again = (
        attack(encoder, words=1, learning_rate=0.1).fit(known, NONE, 0).words(release)
        for _ in range(2)
    )
    assert trained == again != bayes


def test_a_beam_uses_which_words_follow_each_other(table: EmbeddingTable, encoder: Path) -> None:
    """Each word has one successor; half of the words are replaced, by any word.

    A replaced word tells nothing of its original, so that each place has all words as candidates.
    """

    class Half:
        def privatize(self, texts: Iterable[PreparedText]) -> Iterator[list[str]]:
            for text in texts:
                rng = text.stream()
                others = rng.choice(table.words, len(text.words))
                yield np.where(rng.random(len(text.words)) < 0.5, text.words, others).tolist()

    def cycles(n: int, seed: int) -> list[PreparedText]:
        starts = np.random.default_rng(seed).integers(V, size=n)
        return streamed([np.roll(table.words, -start).tolist() for start in starts], seed)

    channel = Channel(np.arange(V), csr_array(np.full((V, V), 10) + 180 * np.eye(V, dtype=int)))
    own: Any = Half()
    known = Public(table, np.zeros(V, np.int64), channel, cycles(60, 0), own)
    victims = cycles(20, 1)
    release = Release(list(own.privatize(victims)))
    truth = np.array([text.words for text in victims])
    alone, together = (
        np.mean(
            np.array(
                attack(encoder, words=1, learning_rate=1e-12, beam=beam)
                .fit(known, NONE, 0)
                .words([release])
            )
            == truth
        )
        for beam in (1, V)
    )
    assert alone < 0.7  # half, and what falls on itself
    assert together > 0.9
