"""Plain tokens: drawn as defined, and each text's copies from its own sequence."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import T2T, word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.seeded import PlainTokens, plain_vocabulary, release
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import NOUNS, VERBS

IDS = [f"train-{i:06d}" for i in range(20)]
PAPER: dict[str, Any] = {"length": 10, "sequences": 1, "choice": "uniform", "vocabulary": None}
# Of each test below that could fail by chance, were its seed another.
FALSE_ALARM = 1e-6


def privatizer(table: EmbeddingTable, eta: float = 2.0) -> Privatizer:
    return Privatizer(
        table=table, mechanism=word_mechanism("pct2t"), eta=eta, categories=["noun", "verb"]
    )


def plain_tokens(of: Privatizer, *names: str | int, seed: int = 0, **how: Any) -> PlainTokens:
    return PlainTokens(of, *names, seed=seed, **PAPER | how)


def test_one_uniform_sequence_is_the_definition(table: EmbeddingTable) -> None:
    """Places drawn uniformly from all candidates, and privatized for each text by its stream."""
    made = privatizer(table)
    plain = plain_tokens(made, 1)
    targets = stream(0, 1, "plain-tokens").integers(len(made.candidates), size=10)
    rows = made.candidates[targets]
    words = [table.words[row] for row in rows]
    np.testing.assert_array_equal(plain.targets, [targets])
    assert plain.words == [words]
    groups = [0 if word in NOUNS else 1 for word in words]
    assert set(groups) == {0, 1}
    expected = made.privatize(
        PreparedText(
            words, groups, lambda example=example: stream(0, 1, "movies", example, "plain")
        )
        for example in IDS
    )
    assert list(plain.copies(IDS, "movies")) == list(expected)
    assert plain.sequences(IDS, "movies") == [0] * len(IDS)


def test_further_sequences_leave_the_first_as_it_is(table: EmbeddingTable) -> None:
    made = privatizer(table)
    one, several = plain_tokens(made, 0), plain_tokens(made, 0, sequences=5)
    assert several.targets.shape == (5, 10)
    np.testing.assert_array_equal(several.targets[0], one.targets[0])
    assert len({tuple(sequence) for sequence in several.words}) == 5


@pytest.mark.parametrize("eta", [1e6, np.inf])
def test_each_text_is_given_copies_of_its_own_sequence(table: EmbeddingTable, eta: float) -> None:
    """Without noise to speak of a copy is the sequence itself."""
    plain = plain_tokens(privatizer(table, eta), 0, sequences=4)
    given = plain.sequences(IDS, "movies")
    assert set(given) == {0, 1, 2, 3}
    copies = list(plain.copies(IDS, "movies"))
    assert copies == [plain.words[sequence] for sequence in given]


def test_which_sequence_a_text_is_given_depends_on_its_id_alone(table: EmbeddingTable) -> None:
    plain = plain_tokens(privatizer(table), 0, sequences=4)
    given = dict(zip(IDS, plain.sequences(IDS, "movies"), strict=True))
    assert plain.sequences(IDS[::-1], "movies") == [given[example] for example in IDS[::-1]]
    many = plain.sequences(map(str, range(2000)), "movies")
    assert chisquare(np.bincount(many, minlength=4)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("vocabulary", [None, 5])
def test_words_are_drawn_by_the_stated_law(table: EmbeddingTable, vocabulary: int | None) -> None:
    made = privatizer(table)
    rows = plain_vocabulary(made, vocabulary)
    how = {"length": 5, "sequences": 4000, "vocabulary": vocabulary}
    counts = {
        choice: np.bincount(plain_tokens(made, 0, choice=choice, **how).targets.ravel())
        for choice in ("uniform", "frequency")
    }
    shares = table.frequency[rows] / table.frequency[rows].sum()
    assert chisquare(counts["uniform"]).pvalue > FALSE_ALARM
    assert chisquare(counts["frequency"], 20_000 * shares).pvalue > FALSE_ALARM
    # Each law would be told from the other.
    assert chisquare(counts["uniform"], 20_000 * shares).pvalue < FALSE_ALARM
    assert chisquare(counts["frequency"]).pvalue < FALSE_ALARM


def test_the_vocabulary_is_that_of_the_most_frequent_candidates(table: EmbeddingTable) -> None:
    made = privatizer(table)
    np.testing.assert_array_equal(plain_vocabulary(made, None), made.candidates)
    np.testing.assert_array_equal(plain_vocabulary(made, len(made.candidates)), made.candidates)
    plain = plain_tokens(made, 0, length=200, vocabulary=3)
    frequent = sorted(NOUNS + VERBS, key=lambda w: -table.frequency[table.words.index(w)])[:3]
    assert {word for word in plain.words[0]} == set(frequent)
    assert [table.words[plain.vocabulary[t]] for t in plain.targets[0]] == plain.words[0]


def test_what_the_table_cannot_give_is_one_line(
    table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = privatizer(table)
    with pytest.raises(RaptError, match="vocabulary: got 15, expected at most the 14 candidates"):
        plain_tokens(made, 0, vocabulary=15)
    monkeypatch.setattr(table, "frequency", np.zeros(len(table.words)))
    with pytest.raises(RaptError, match="choice: got 'frequency', expected uniform, as the tab"):
        plain_tokens(made, 0, choice="frequency")


@pytest.mark.parametrize("shared", [False, True])
def test_a_word_that_stands_twice_is_one_draw_where_its_places_share_noise(
    table: EmbeddingTable, shared: bool
) -> None:
    count, made = 200, Privatizer(table=table, mechanism=T2T(), eta=0.5)
    columns: dict[str, Any] = {"example_id": [str(k) for k in range(count)]}
    columns |= {"words": [["nouna", "nounb", "nouna", "the"]] * count}
    columns |= {"pos": [["NOUN"] * 4] * count, "identifier": [[None] * 4] * count}
    columns |= {"noise": [[0, 1, 0, 3]] * count} if shared else {}
    texts = list(release(made, pa.table(columns), "copies", seed=0))
    same = np.mean([text.words[0] == text.words[2] for text in texts])
    assert same == 1 if shared else same < 0.9


def test_each_text_has_its_own_noise_whatever_stands_beside_it(table: EmbeddingTable) -> None:
    columns = {
        "example_id": IDS,
        "words": [[*NOUNS[:3], *VERBS[:3]]] * len(IDS),
        "pos": [["NOUN"] * 3 + ["VERB"] * 3] * len(IDS),
        "identifier": pa.array([[None] * 6] * len(IDS), pa.list_(pa.string())),
    }
    tagged, made = pa.table(columns), privatizer(table)
    every = [text.words for text in release(made, tagged, "movies", seed=0)]
    assert len({tuple(words) for words in every}) > len(IDS) / 2
    alone = [text.words for text in release(made, tagged.slice(5, 1), "movies", seed=0)]
    assert alone == every[5:6]
