"""Channels over the tiny random table of conftest.py."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import binomtest

from rapt.privacy import channel as channels
from rapt.privacy import privatizer as module
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import Channel, choose, estimate, mean_share, noise_of
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from tests.conftest import NOUNS

FALSE_ALARM = 1e-6
DRAWS = 60


def t2t(table: EmbeddingTable, eta: float = 3.0) -> Privatizer:
    return Privatizer(table=table, mechanism=T2T(), eta=eta)


def pct2t(table: EmbeddingTable, eta: float = 3.0) -> Privatizer:
    return Privatizer(table=table, mechanism=PCT2T(), eta=eta, categories=("noun", "verb"))


def by_hand() -> Channel:
    """Of a table of 5 words, words 1 and 4 in 4 and 10 draws."""
    return Channel(np.array([1, 4]), csr_array(np.array([[0, 3, 1, 0, 0], [2, 2, 0, 6, 0]])))


@pytest.mark.parametrize("made", [t2t, pct2t])
def test_counts_are_those_of_privatizing_word_by_word(
    table: EmbeddingTable, made: Callable[[EmbeddingTable], Privatizer]
) -> None:
    privatizer = made(table)
    rows = np.arange(len(table.words))
    channel = estimate(privatizer, rows, DRAWS, 5)
    for row, group in zip(rows, privatizer.groups_of_rows(rows), strict=True):
        word = table.words[row]
        text = PreparedText([word] * DRAWS, [group] * DRAWS, partial(noise_of, 5, word))
        (after,) = privatizer.privatize([text])
        counts = channel.counts[[row]].toarray()[0]
        assert {table.words[y]: c for y, c in enumerate(counts) if c} == Counter(after)


def test_many_draws_come_in_parts_with_noise_of_their_own(
    table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "AT_ONCE", 30)
    taken = np.array([70, 20])
    channel = estimate(t2t(table), [2, 5], taken, 0)
    assert channel.draws.tolist() == [70, 20]
    for row, parts in ((2, [30, 30, 10]), (5, [20])):
        texts = [
            PreparedText(
                [table.words[row]] * n, [0] * n, partial(noise_of, 0, table.words[row], part)
            )
            for part, n in enumerate(parts)
        ]
        every = list(t2t(table).privatize(texts))
        assert len({tuple(after[:10]) for after in every}) == len(parts)
        counts = channel.of(channel.rows == row).counts.toarray()[0]
        expected = Counter(word for after in every for word in after)
        assert {table.words[y]: c for y, c in enumerate(counts) if c} == expected


@given(st.sets(st.integers(0, 17), min_size=1), st.integers(1, 400))
@settings(max_examples=20)
def test_a_word_depends_on_neither_batches_nor_other_words(
    table: EmbeddingTable, rows: set[int], size: int
) -> None:
    whole = estimate(t2t(table), range(18), DRAWS, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORDS", size)
        part = estimate(t2t(table), rows, DRAWS, 0)
    assert part.rows.tolist() == sorted(rows)
    assert (part.counts.toarray() == whole.counts.toarray()[part.rows]).all()


def test_replacement_falls_with_eta_between_the_known_ends(table: EmbeddingTable) -> None:
    channels = [estimate(t2t(table, eta), range(18), 100, 0) for eta in (1e-3, 2, 5, 1e6)]
    replaced = np.array([channel.replaced for channel in channels])
    assert (np.diff(replaced, axis=0) <= 0).all()  # for each word: its noise shrinks on a line
    assert (channels[-1].kept == 100).all()
    assert (channels[-1].s_w == 1).all()
    # Next to no signal: a word survives only by chance, and nearly every word can come out.
    assert replaced[0].mean() > 0.8
    assert np.median(channels[0].s_w) > 8


def test_inf_is_the_identity(table: EmbeddingTable) -> None:
    channel = estimate(t2t(table, np.inf), range(18), DRAWS, 0)
    assert (channel.counts.toarray() == DRAWS * np.eye(18)).all()


def test_words_outside_the_categories_stay(table: EmbeddingTable) -> None:
    channel = estimate(pct2t(table, 0.1), range(18), DRAWS, 0)
    counts = channel.counts.toarray()
    assert (counts[14:] == DRAWS * np.eye(18)[14:]).all()
    assert counts[: len(NOUNS), len(NOUNS) :].sum() == 0
    assert channel.replaced[:14].min() > 0


def test_statistics_by_hand() -> None:
    channel = by_hand()
    assert channel.draws.tolist() == [4, 10]
    assert channel.kept.tolist() == [3, 0]
    assert channel.n_w.tolist() == [750, 0]
    assert channel.s_w.tolist() == [2, 3]
    assert channel.replaced.tolist() == [0.25, 1]
    np.testing.assert_allclose(channel.matrix.toarray().sum(axis=1), 1)
    np.testing.assert_allclose(channel.matrix.toarray()[:, 1], [0.75, 0.2])
    # Mean 0.625, sd 0.53033 over two words: the interval is cut at 1.
    share = mean_share(channel.replaced)
    assert (share.value, share.high) == (0.625, 1)
    assert share.low == pytest.approx(max(0, 0.625 - 1.96 * 0.530330 / 2**0.5))
    one = channel.of(np.array([False, True]))
    assert one.rows.tolist() == [4]
    assert one.statistics()["replaced"] == 1
    assert one.statistics()["replaced_low"] == 0  # one word says nothing about others


def test_probabilities_agree_between_independent_estimates(table: EmbeddingTable) -> None:
    """18 × 18 intervals of confidence 1 − 1e-9 each, twice: a false alarm has p < 1e-6."""
    one, other = (estimate(t2t(table), range(18), 500, seed) for seed in (1, 2))
    assert (one.counts.toarray() != other.counts.toarray()).any()
    for w in range(18):
        for y in range(18):
            a, b = (
                binomtest(int(channel.counts[w, y]), 500).proportion_ci(1 - 1e-9, "exact")
                for channel in (one, other)
            )
            assert a.low <= b.high
            assert b.low <= a.high


def test_a_channel_is_read_as_it_was_written(table: EmbeddingTable, tmp_path: Path) -> None:
    choice = choose(table, np.arange(18), 4, 6, 0)
    channel = estimate(t2t(table), choice.rows, DRAWS, 0)
    channel.save(tmp_path, choice)
    read = Channel.load(tmp_path, len(table.words))
    assert read.counts.shape == (len(choice.rows), 18)
    assert (read.counts.toarray() == channel.counts.toarray()).all()
    assert read.rows.tolist() == channel.rows.tolist()
    counts, words = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("counts", "words"))
    assert [f"{f.name} {f.type}" for f in counts.schema] == [
        "word int32",
        "released int32",
        "count int32",
    ]
    assert [f"{f.name} {f.type}" for f in words.schema] == [
        "row int32",
        "draws int32",
        "stratum string",
        "sampled bool",
        "frequent bool",
    ]
    assert words["draws"].to_pylist() == [DRAWS] * len(choice.rows)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 99))
def test_each_stratum_has_its_share_of_the_sample(
    table: EmbeddingTable, frequent: int, sampled: int, seed: int
) -> None:
    candidates = np.arange(14)  # nouns and verbs, by falling frequency
    choice = choose(table, candidates, frequent, sampled, seed)
    assert choice.rows[choice.frequent].tolist() == list(range(min(frequent, 14)))
    assert (choice.frequent | choice.sampled).all()
    assert choice.sampled.sum() == min(sampled, 14)
    every = choose(table, candidates, 0, None, seed)
    assert every.sampled.all()
    sizes = Counter(every.strata)
    assert sizes["noun, common"] == 3
    assert list(dict.fromkeys(every.strata)) == [
        f"{name}, {band}" for name in ("noun", "verb") for band in ("common", "middle", "rare")
    ]
    of_sample = Counter(s for s, own in zip(choice.strata, choice.sampled, strict=True) if own)
    for stratum, size in sizes.items():
        assert abs(of_sample[stratum] - min(sampled, 14) * size / 14) <= 1


def test_each_word_is_equally_likely_to_be_sampled(table: EmbeddingTable) -> None:
    """18 exact tests at 1e-6 / 18 each."""
    seeds = 2000
    times = Counter(
        row for seed in range(seeds) for row in choose(table, np.arange(18), 0, 5, seed).rows
    )
    for row in range(18):
        assert binomtest(times[row], seeds, 5 / 18).pvalue > FALSE_ALARM / 18


def test_further_draws_extend_a_channel_without_repeating_one(table: EmbeddingTable) -> None:
    """In parts of other sizes the noise is other noise, so the counts add up."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=3.0)
    first = estimate(privatizer, range(len(table.words)), 50, 0)
    again = estimate(privatizer, range(len(table.words)), 50, 0, after=50)
    assert (first.counts != again.counts).nnz
    whole = first.extended(again)
    assert (whole.draws == 100).all()
    assert (whole.counts.toarray() == first.counts.toarray() + again.counts.toarray()).all()
