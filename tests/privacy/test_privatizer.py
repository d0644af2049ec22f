"""Releases from the tiny random table of conftest.py."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from rapt.audit.cases import write_table
from rapt.privacy import privatizer as module
from rapt.privacy.base import PreparedText
from rapt.privacy.categories import VERBATIM, Scheme
from rapt.privacy.fates import NOISE, SHARED
from rapt.privacy.mechanisms import PCT2T, T2T, Mahalanobis, Mechanism, TokenRepresentation
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import NOUNS, VERBS

TEXT = ["Nouna", "the", "verbb", "unknown", "nounc", ".", "7", "zzz"]
TAGS = ["NOUN", "DET", "VERB", "NOUN", "PROPN", "PUNCT", "NUM", "VERB"]
T2T_ALL, PCT = (T2T(), None), (PCT2T(), ("noun", "verb"))
How = tuple[Mechanism, tuple[str, ...] | None]


def made(table: EmbeddingTable, how: How, eta: float) -> Privatizer:
    return of_words(how[0].privatizer(table=table, eta=eta, categories=how[1]))


def released(
    table: EmbeddingTable,
    how: How,
    eta: float,
    copies: int = 1,
    words: list[str] = TEXT,
    tags: list[str] = TAGS,
) -> list[list[str]]:
    privatizer = made(table, how, eta)
    texts = (privatizer.text(words, tags, stream=partial(stream, 0, i)) for i in range(copies))
    return list(privatizer.privatize(texts))


@pytest.mark.parametrize("how", [T2T_ALL, PCT])
def test_every_word_equals_a_plain_replay_of_the_definition(
    table: EmbeddingTable, how: How
) -> None:
    """The definition, word by word in float64, from the same stream."""
    eta, scheme = 3.0, Scheme(how[1])
    rows_of = scheme.groups(table.pos)
    for i, text in enumerate(released(table, how, eta, copies=50)):
        noise = spherical_noise(stream(0, i), len(TEXT), table.dimension) / eta
        for j, (word, tag) in enumerate(zip(TEXT, TAGS, strict=True)):
            group = scheme.group_of(tag)
            expected = word
            if group >= 0:
                query = table.embed([word])[0].astype(np.float64) + noise[j]
                distances = np.linalg.norm(table.vectors[rows_of[group]] - query, axis=1)
                expected = table.words[rows_of[group][distances.argmin()]]
            assert text[j] == expected


def test_an_unknown_word_is_always_replaced(table: EmbeddingTable) -> None:
    for how in (T2T_ALL, PCT):
        for text in released(table, how, 1e6, copies=20):
            assert text[3] in NOUNS if how is PCT else text[3] in table.words
            assert text[7] in table.words  # all its pieces are unknown too
    ((word,),) = released(table, PCT, 1e6, words=["unknown"], tags=["DET"])
    assert word in table.words  # of no category of the scheme


def test_pct2t_stays_within_the_category_and_leaves_the_rest(table: EmbeddingTable) -> None:
    for text in released(table, PCT, 0.1, copies=30):
        assert {text[0], text[3], text[4]} <= set(NOUNS)
        assert {text[2], text[7]} <= set(VERBS)
        assert [text[1], text[5], text[6]] == ["the", ".", "7"]


def test_inf_releases_the_originals(table: EmbeddingTable) -> None:
    assert released(table, T2T_ALL, float("inf")) == [TEXT]


def test_large_eta_keeps_known_words_small_eta_replaces_most(table: EmbeddingTable) -> None:
    known = ["nouna", "verbb", "the"]
    assert released(table, T2T_ALL, 1e6, 5, known, ["X"] * 3) == [known] * 5
    many = released(table, T2T_ALL, 0.01, 200, known, ["X"] * 3)
    assert sum(t != known for t in many) > 190


@pytest.mark.parametrize("eta", [0.0, -1.0, float("nan")])
def test_eta_must_be_above_zero(table: EmbeddingTable, eta: float) -> None:
    with pytest.raises(RaptError, match=r"^eta: got .*, expected a number above 0"):
        made(table, T2T_ALL, eta)


@given(st.integers(1, 60), st.integers(1, 4))
@settings(max_examples=20)
def test_batches_threads_and_order_do_not_matter(
    table: EmbeddingTable, size: int, threads: int
) -> None:
    privatizer = made(table, PCT, 2.0)
    texts = [privatizer.text(TEXT, TAGS, stream=partial(stream, 7, i)) for i in range(12)]
    whole = list(privatizer.privatize(texts))
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(threads, user_api="blas"):
        patch.setattr(module, "WORDS", size)
        assert list(privatizer.privatize(texts)) == whole
    assert list(privatizer.privatize(reversed(texts))) == whole[::-1]


def test_mechanisms_share_the_noise_of_a_word(table: EmbeddingTable) -> None:
    """Over the whole table in one category T2T and PCT2T are the same mechanism."""
    noun = EmbeddingTable(table.folder)
    noun.pos = [["NOUN"]] * len(noun.words)
    tags = ["NOUN"] * len(TEXT)
    alike = [released(noun, how, 2.0, 30, TEXT, tags) for how in (T2T_ALL, (PCT2T(), ("noun",)))]
    assert alike[0] == alike[1]


def test_distribution_is_d_x_private(table: EmbeddingTable) -> None:
    """Two-sided audit of every output of two words: false-alarm rate below 1e-6."""
    eta, n = 1.5, 20_000
    pair = [table.words[i] for i in (0, 3)]
    distance = float(np.linalg.norm(table.vectors[0] - table.vectors[3]))
    outputs = [released(table, T2T_ALL, eta, 1, [word] * n, ["X"] * n)[0] for word in pair]
    tests = 2 * len(table.words)
    for y in table.words:
        bounds = [
            binomtest(out.count(y), n).proportion_ci(1 - 1e-6 / tests, "exact") for out in outputs
        ]
        for one, other in (bounds, bounds[::-1]):
            assert one.low <= np.exp(eta * distance) * other.high


def some(n: int) -> list[PreparedText]:
    """Random texts of 50 words."""
    rng = np.random.default_rng(0)
    groups = [0] * 50
    return [
        PreparedText(
            list(rng.choice(["unknown", *NOUNS, *VERBS], 50)), groups, partial(stream, 0, i)
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("grid", [2.0**-18, 2.0**0])
def test_words_and_vectors_of_a_release_are_of_one_draw(table: EmbeddingTable, grid: float) -> None:
    """The words are the nearest to the vectors; on a fine grid they are those of T2T."""
    how = TokenRepresentation(grid=grid), None
    given = [*some(20), PreparedText([], [], partial(stream, 0, "empty"))]
    for text, before in zip(made(table, how, 2.0).release(given), given, strict=True):
        assert text.vectors is not None
        assert text.vectors.shape == (len(before.words), table.dimension)
        apart = np.linalg.norm(text.vectors.astype(float)[:, None] - table.vectors, axis=2)
        assert [table.words[row] for row in apart.argmin(axis=1)] == text.words
    words = list(made(table, how, 2.0).privatize(given))
    assert (words == list(made(table, T2T_ALL, 2.0).privatize(given))) == (grid < 1)


def test_vectors_are_the_words_own_plus_noise(table: EmbeddingTable) -> None:
    how = TokenRepresentation(grid=2.0**-10), None
    (text,) = some(1)
    own = np.round(table.embed(text.words) * 1024) / 1024
    (clean,) = made(table, how, np.inf).release([text])
    assert clean.words == text.words
    np.testing.assert_array_equal(clean.vectors, own)
    (noisy,) = made(table, how, 1.0).release([text])
    assert np.linalg.norm(noisy.vectors - own, axis=1).min() > 1


def test_a_word_that_shares_its_noise_has_one_vector(table: EmbeddingTable) -> None:
    how = TokenRepresentation(grid=2.0**-10), None
    words = ["mary", "paris", "mary"]
    text = made(table, how, 1.0).text(words, ["NOUN"] * 3, (), [0, 1, 0])
    (released,) = made(table, how, 1.0).release([text])
    assert text.fates == [NOISE, NOISE, SHARED]
    np.testing.assert_array_equal(released.vectors[0], released.vectors[2])
    assert (released.vectors[0] != released.vectors[1]).any()


def test_no_words_of_a_category_of_its_own_shape_lose_more_than_counted(tmp_path: Path) -> None:
    """The prepositions lie on a line but for two of them: in their shape these are far apart."""
    rng = np.random.default_rng(0)
    few = rng.standard_normal((40, 16)) * 0.05
    few[:, 0] += np.repeat([10, -10], 20)
    few[[0, -1], 1] += [1.5, -1.5]
    vectors = np.concatenate([rng.standard_normal((1000, 16)) * 0.55, few])
    names, pos = [f"w{row}" for row in range(1040)], [["NOUN"]] * 1000 + [["ADP"]] * 40
    write_table(tmp_path, names, vectors, np.ones(1040), pos)
    how = Mahalanobis(weight=0.9), ("noun", "preposition")
    privatizer = made(EmbeddingTable(tmp_path), how, 1.0)
    one, other = (privatizer.text([names[row]], ["ADP"]) for row in (1000, -1))
    loss, _ = privatizer.loss_between(one, other)
    assert 9.9 < loss <= privatizer.max_loss * (1 + 1e-9)


def test_what_float32_cannot_hold_is_one_line(table: EmbeddingTable) -> None:
    how = TokenRepresentation(grid=2.0**-30), None
    with pytest.raises(RaptError, match=r"^mechanism.grid: got .*, expected a larger power of two"):
        list(made(table, how, 2.0).release(some(1)))


@pytest.mark.parametrize("how", [T2T_ALL, PCT])
def test_words_that_share_their_noise_are_released_alike(table: EmbeddingTable, how: How) -> None:
    """As the first of them, whose noise and group they have; others as on their own."""
    words = ["Nouna", "the", "verbb", "nouna", "nounc", "zzz"]
    tags = ["NOUN", "DET", "VERB", "VERB", "PROPN", "NOUN"]
    noise = [0, -1, 2, 0, 4, 4]
    privatizer = made(table, how, 3.0)
    for i in range(30):
        text = privatizer.text(words, tags, noise_source=noise, stream=partial(stream, 0, i))
        own = privatizer.text(words, tags, stream=partial(stream, 0, i))
        ((after,), (alone,)) = (list(privatizer.privatize([one])) for one in (text, own))
        assert after[3] == after[0]
        assert after[5] == after[4]
        assert after[1] == "the"
        assert [after[at] for at in (0, 2, 4)] == [alone[at] for at in (0, 2, 4)]
        assert text.fates == [NOISE, "verbatim other", NOISE, SHARED, NOISE, SHARED]


def test_a_word_without_noise_stands_as_it_is_even_if_unknown(table: EmbeddingTable) -> None:
    privatizer = made(table, PCT, 3.0)
    text = privatizer.text(
        ["unknown", "7", "7"], ["X", "NUM", "NUM"], [None, "number", "number"], [-1, 1, 1]
    )
    assert list(privatizer.privatize([text])) == [["unknown", "<number>", "<number>"]]


def test_a_word_is_protected_if_its_category_is_in_one_of_its_places(table: EmbeddingTable) -> None:
    privatizer = made(table, PCT, 0.1)
    text = privatizer.text(["nouna", "nouna", "7"], ["X", "PROPN", "NUM"], noise_source=[0, 0, 2])
    assert text.groups[0] == text.groups[1] != VERBATIM
    first, second, _ = next(iter(privatizer.privatize([text])))
    assert first == second


def test_texts_with_and_without_shared_noise_go_together(table: EmbeddingTable) -> None:
    privatizer = made(table, T2T_ALL, 3.0)
    plain = privatizer.text(TEXT, TAGS, stream=partial(stream, 0, "plain"))
    words, noise = ["nouna", "nounb", "nouna"], [0, 1, 0]
    shared = privatizer.text(
        words, ["NOUN"] * 3, noise_source=noise, stream=partial(stream, 0, "shared")
    )
    both = list(privatizer.privatize([plain, shared]))
    assert both == [*privatizer.privatize([plain]), *privatizer.privatize([shared])]
    assert both[1][0] == both[1][2]
