"""With the seed a release is as good as open, but for words that the same noise makes equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.attacks.base import Public, Release
from rapt.attacks.replay import SeedReplay
from rapt.audit.cases import small_table
from rapt.privacy.mechanisms import PCT2T, T2T, TokenRepresentation
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from tests.attacks.test_bayesian import FALSE_ALARM, NONE

REPLAY = SeedReplay(type="seed-replay")
SCHEMES = {
    "t2t": lambda table: Privatizer(table=table, mechanism=T2T(), eta=2.0),
    "pct2t": lambda table: Privatizer(
        table=table, mechanism=PCT2T(), eta=2.0, categories=["noun", "verb"]
    ),
}


def release(privatizer: Privatizer, words: list[str], seed: int) -> Release:
    """One text, and the noise of its words."""
    table = privatizer.table
    groups = privatizer.groups_of_rows(table.rows(words))
    (released,) = privatizer.privatize([Words(words, groups, partial(stream, seed))])
    noise = privatizer.mechanism.draw(stream(seed), len(words), table.dimension) / privatizer.eta
    return Release([released], noise=lambda: iter([noise]))


@pytest.mark.parametrize("make", SCHEMES.values(), ids=SCHEMES)
def test_it_finds_the_most_frequent_word_that_the_noise_leads_there(
    table: EmbeddingTable, make: Callable[[EmbeddingTable], Privatizer]
) -> None:
    """Against every word of the table released under the same noise, place by place."""
    privatizer = make(table)
    public = Public.of(privatizer, None)
    unchanged = right = 0
    for seed in range(60):
        truth = [str(w) for w in np.random.default_rng(seed).choice(table.words[:14], 6)]
        seen = release(privatizer, truth, seed)
        others = [release(privatizer, [word] * 6, seed).words[0] for word in table.words[:14]]
        expected = []
        for at, y in enumerate(seen.words[0]):
            group = public.groups[table.rows([y])[0]]
            ways = [
                word
                for word, released in zip(table.words[:14], others, strict=True)
                if released[at] == y and public.groups[table.rows([word])[0]] == group
            ]
            expected.append(ways[0])  # the table's words stand by their frequency
        (guess,) = REPLAY.fit(public, NONE, 0).words([seen])
        assert guess == expected
        right += sum(g == w for g, w in zip(guess, truth, strict=True))
        unchanged += sum(y == w for y, w in zip(seen.words[0], truth, strict=True))
    assert unchanged < right


@pytest.mark.parametrize("eta", [50.0, 1.0, 0.001], ids=["identity", "two words", "uniform"])
def test_of_two_words_it_reaches_the_best_success_that_there_is(eta: float) -> None:
    """At ±1 on a line both become one with exp(−η), under Laplace noise beyond 1.

    Then the more frequent one is right with 2/3: 1 − exp(−η)/3 in all, tested exactly.
    """
    n, share = 4000, 2 / 3
    table = small_table(["left", "right"], np.array([[-1.0], [1.0]]), np.array([share, 1 - share]))
    words = np.random.default_rng(0).choice(table.words, n, p=[share, 1 - share]).tolist()
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=eta)
    invert = REPLAY.fit(Public.of(privatizer, None), NONE, 0)
    (guessed,) = invert.words([release(privatizer, words, 0)])
    right = sum(guess == word for guess, word in zip(guessed, words, strict=True))
    assert binomtest(right, n, 1 - np.exp(-eta) * (1 - share)).pvalue > FALSE_ALARM


def test_vectors_without_their_noise_are_the_words_own(table: EmbeddingTable) -> None:
    how = TokenRepresentation(grid=2.0**-10)
    public = Public.of(Privatizer(table=table, mechanism=how, eta=0.5), None)
    texts = [table.words[:5], table.words[5:18], []]
    draws = [how.draw(stream(i), len(text), table.dimension) for i, text in enumerate(texts)]
    vectors = np.concatenate(
        [how.represent(table.embed(t), d, 0.5) for t, d in zip(texts, draws, strict=True)]
    ).astype(np.float32)
    seen = Release(
        [["the"] * len(t) for t in texts], vectors, lambda: iter([d / 0.5 for d in draws])
    )
    assert REPLAY.fit(public, NONE, 0).words([seen]) == texts


def test_what_is_released_as_it_is_stays(table: EmbeddingTable) -> None:
    public = Public.of(SCHEMES["pct2t"](table), None)
    noise = np.zeros((2, table.dimension))
    seen = Release([["the", "unknown"]], noise=lambda: iter([noise]))
    assert REPLAY.fit(public, NONE, 0).words([seen]) == [["the", "unknown"]]
