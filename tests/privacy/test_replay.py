"""A release against its replay: sound mechanisms pass, broken ones of as many changes do not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from rapt.privacy.mechanisms import T2T, mechanism
from rapt.privacy.privatizer import Privatizer, Released, Words
from rapt.privacy.replay import FALSE_ALARM, SignTest, agreement, measures, replay_test, sign_tests
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

ETA = 2.0


def texts_of(table: EmbeddingTable, count: int = 200) -> list[Words]:
    rng = np.random.default_rng(0)
    rows = rng.integers(len(table.words), size=(count, 8))
    return [Words([table.words[row] for row in text], [0] * 8) for text in rows]


def made(table: EmbeddingTable, name: str = "t2t", eta: float = ETA) -> Privatizer:
    how = T2T() if name == "t2t" else mechanism(name)
    return Privatizer(table=table, mechanism=how, eta=eta)


def released(privatizer: Privatizer, texts: Sequence[Words], *names: str | int) -> list[Released]:
    streams = (partial(stream, 7, *names, number) for number in range(len(texts)))
    given = zip(texts, streams, strict=True)
    return list(privatizer.release(Words(t.words, t.groups, s) for t, s in given))


def compare(
    privatizer: Privatizer,
    texts: Sequence[Words],
    released: Sequence[Released],
    replayed: Sequence[Released],
) -> list[SignTest]:
    return sign_tests(*(measures(privatizer, texts, some) for some in (released, replayed)))


def failing(found: Sequence[SignTest]) -> set[str]:
    return {test.name for test in found if not test.passed}


@pytest.mark.parametrize("name", ["t2t", "token-representation"])
def test_the_mechanism_itself_passes(table: EmbeddingTable, name: str) -> None:
    """The first eight of fixed draws; the false-alarm rate of each is 1e-6."""
    privatizer, texts = made(table, name), texts_of(table)
    for k in range(8):
        one, other = (released(privatizer, texts, side, k) for side in ("release", "gate"))
        found = compare(privatizer, texts, one, other)
        assert not failing(found)
        assert sum(test.level for test in found) == pytest.approx(FALSE_ALARM)


def test_the_next_row_in_the_place_of_noise_fails(table: EmbeddingTable) -> None:
    privatizer, texts = made(table), texts_of(table)
    rng, size = np.random.default_rng(1), len(table.words)
    rows = [table.rows(text.words) for text in texts]
    mapped = [Released([table.words[(r + 1) % size] for r in text]) for text in rows]
    replay = released(privatizer, texts, "gate")
    assert "agreement within a word" in failing(compare(privatizer, texts, mapped, replay))
    # Replacing as often as the mechanism does hides nothing.
    kept = [rng.random(len(text)) < 0.4 for text in rows]
    some = [
        Released([w if k else table.words[(r + 1) % size] for w, k, r in zip(*both, strict=True)])
        for both in zip((t.words for t in texts), kept, rows, strict=True)
    ]
    assert failing(compare(privatizer, texts, some, replay))


def test_half_the_noise_of_vectors_fails(table: EmbeddingTable) -> None:
    texts = texts_of(table)
    privatizer = made(table, "token-representation")
    half = made(table, "token-representation", 2 * ETA)
    found = compare(
        privatizer, texts, released(half, texts, "release"), released(privatizer, texts, "gate")
    )
    assert "length of the noise" in failing(found)


def test_noise_of_one_direction_and_noise_used_twice_fail(table: EmbeddingTable) -> None:
    texts, privatizer = texts_of(table), made(table, "token-representation")
    fair, replay = (released(privatizer, texts, side) for side in ("release", "gate"))

    def spoilt(noise: np.ndarray, own: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(noise, axis=1, keepdims=True)
        return own + length * fixed / np.linalg.norm(fixed)

    fixed = np.random.default_rng(0).standard_normal(table.dimension)
    one_way, twice = [], []
    for text, after in zip(texts, fair, strict=True):
        assert after.vectors is not None
        own = table.embed(list(text.words))
        one_way.append(Released(after.words, spoilt(after.vectors - own, own)))
        twice.append(Released(after.words, own + (after.vectors - own)[:1]))
    assert "direction of the noise" in failing(compare(privatizer, texts, one_way, replay))
    assert "direction beside the next" in failing(compare(privatizer, texts, twice, replay))


def test_agreement_takes_each_occurrence_once() -> None:
    assert agreement(list("aababa"), list("xxyzxy")).tolist() == [1, 0, 0]
    assert agreement([], []).tolist() == []


def test_replay_test_accepts_the_same_mechanism() -> None:
    """200 tests at a false-alarm rate of 1e-6 each: fails by chance with p < 2e-4."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.random(500)
        released, replayed = (list(map(bool, rng.random(500) < p)) for _ in range(2))
        assert replay_test(released, replayed).passed


def test_replay_test_catches_a_release_with_less_noise() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3000)
    released = list(map(bool, rng.random(3000) < 0.8 * p))
    replayed = list(map(bool, rng.random(3000) < p))
    result = replay_test(released, replayed)
    assert not result.passed
    assert result.replaced < result.low <= result.expected


def test_replay_test_false_alarm_rate_is_exact() -> None:
    result = replay_test([True] * 50 + [False] * 50, [False] * 50 + [True] * 50)
    outside = 2 * binom.cdf(result.low - 1, 100, 0.5)
    assert outside <= 1e-6 < 2 * binom.cdf(result.low, 100, 0.5)


def test_no_doubt_where_nothing_differs() -> None:
    assert replay_test([True, False], [True, False]).passed
    assert replay_test([], []).passed
