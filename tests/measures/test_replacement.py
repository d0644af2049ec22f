"""Shares of replaced words: over the tiny table, over invented curves, and on real texts."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, norm

from rapt.measures.calibration import critical_curve
from rapt.measures.replacement import (
    Counted,
    FoundText,
    TextCurve,
    counted,
    found_in,
    public_texts,
    text_curve,
)
from rapt.paths import TAGGER
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import PCT2T, T2T, WordMechanism
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.text.tagged import Tagged
from rapt.text.tagging import Tagger

PAPER = ("paper",)
TINY = ("noun", "verb")
METHODS = [("t2t", T2T(), None), ("pct2t", PCT2T(), PAPER)]
CORPORA = {
    "sst2": ("validation", "sentence"),
    "happydb": ("test", "moment"),
    "qqp": ("validation", "question1"),
}


def test_words_are_sorted_by_what_becomes_of_them(table: EmbeddingTable) -> None:
    """Of a release, words always replaced are: unknown ones, and those of another category."""
    words = ["nouna", "Nounb", "verba", "nouna", "zzz", "zzz", "the", "12", "§"]
    tags = ["NOUN", "NOUN", "NOUN", "VERB", "NOUN", "DET", "DET", "NUM", "NOUN"]
    identifiers = [None] * 7 + ["number", None]
    at = partial(Privatizer, table=table, mechanism=PCT2T(), categories=TINY)
    found = found_in(at(eta=np.inf), counted([(words, tags, identifiers)] * 3))
    assert [table.words[row] for row in found.rows] == ["nouna", "nounb"]
    assert (found.counts.tolist(), found.always, found.words) == ([3.0, 3.0], 15, 27)
    text = at(eta=1e9).text(words, tags, identifiers)
    (released,) = at(eta=1e9).privatize([text])
    noisy = [group != VERBATIM for group in text.groups]
    assert 3 * sum(noisy) == found.protected
    changed = at(eta=1e9).replaced(words, released)
    assert 3 * sum(c for c, noise in zip(changed, noisy, strict=True) if noise) == found.always


def test_of_a_table_that_is_not_of_english_words_count_by_frequency(table: EmbeddingTable) -> None:
    common = EmbeddingTable(table.folder)
    common.frequency = np.where(np.arange(18) == 4, 0.5, 0.5 / 17)
    found = text_curve(common, T2T(), None, words=400, draws=40, seed=0)
    assert found.weights[0, found.curve.rows == 4] == pytest.approx(0.5, abs=0.01)
    shares = found.curve.shares(1.0)
    expected = 0.5 * shares[4] + 0.5 * np.delete(shares, 4).mean()
    assert found.replaced(1.0).known.value == pytest.approx(expected, abs=0.01)
    assert found.replaced(1.0).all_words is None
    common.frequency = np.zeros(18)
    assert text_curve(common, T2T(), None, words=36, draws=4, seed=0).weights == pytest.approx(
        1 / 18
    )


WORDS, SPREAD, NOISE = 60, 0.3, 0.5


def invented(seed: int, draws: int, always: int) -> TextCurve:
    """Of a text whose words turn at exp(level of the word + noise), all normal."""
    rng = np.random.default_rng(seed)
    levels = SPREAD * rng.standard_normal((WORDS, 1))
    curve = critical_curve(
        np.arange(WORDS), np.exp(levels + NOISE * rng.standard_normal((WORDS, draws)))
    )
    text = FoundText(curve.rows, np.ones(WORDS), always, 2 * WORDS)
    return TextCurve(curve, [text], np.full((1, WORDS), 1 / WORDS), WORDS)


@pytest.mark.parametrize(("share", "always"), [(0.9, 0), (0.5, 0), (0.1, 0), (0.5, 6)])
def test_interval_of_eta_covers_the_truth_over_words(share: float, always: int) -> None:
    """Fails by chance with p < 1e-6 if it covers in 93 % or more; without the clusters it would
    cover in some 60 %."""
    known = 1 - (1 - share) * (WORDS + always) / WORDS
    truth = np.exp(np.hypot(SPREAD, NOISE) * norm.ppf(1 - known))
    times = 400
    found = [invented(seed, 50, always).eta_for(share) for seed in range(times)]
    covered = sum(f.low <= truth <= f.high for f in found)
    assert binom.cdf(covered, times, 0.93) > 1e-6
    assert binom.sf(covered - 1, times, 0.99) > 1e-6  # nor is it idle


def test_a_word_drawn_often_has_the_error_of_one_word_s_noise() -> None:
    """Half of the text is one word: what 20 draws say of it may be off by a fifth."""
    curve = critical_curve(np.arange(2), np.exp(np.random.default_rng(0).standard_normal((2, 20))))
    text = FoundText(curve.rows, np.ones(2), 0.0, 2.0)
    found = TextCurve(curve, [text], np.full((1, 2), 0.5), 10_000).replaced(1.0).known
    assert found.high - found.low > 2 * 1.96 * np.sqrt(2 * 0.25 * 0.15 / 20)


@pytest.mark.slow
def test_of_an_english_table_there_are_eight_kinds(minilm: EmbeddingTable) -> None:
    texts = public_texts(Privatizer(table=minilm, mechanism=T2T(), eta=np.inf))
    assert len(texts) == 8
    assert all(8000 <= text.words == text.protected for text in texts)
    assert all(0.02 < text.always / text.protected < 0.12 for text in texts)


@pytest.fixture(scope="module")
def corpora(shared: Path) -> dict[str, list[Tagged]]:
    """300 texts each of film reviews, happy moments and questions."""
    tagger, tagged = Tagger(TAGGER), {}
    for name, (split, column) in CORPORA.items():
        texts = pq.read_table(Path(shared, name, f"{split}.parquet"))[column].to_pylist()
        chosen = np.random.default_rng(0).permutation(len(texts))[:300]
        tagged[name] = list(tagger.texts(texts[at] for at in chosen))
    return tagged


def realized(privatizer: Privatizer, texts: list[Tagged]) -> list[float]:
    """Shares of the words that a release changes: listed ones, protected ones, all."""
    prepared = [
        privatizer.text(t.words, t.pos, t.identifiers, stream=partial(stream, 7, number))
        for number, t in enumerate(texts)
    ]
    rows = [
        (group, word, changed)
        for tagged, text, released in zip(
            texts, prepared, privatizer.privatize(prepared), strict=True
        )
        for group, word, changed in zip(
            text.groups, tagged.words, privatizer.replaced(tagged.words, released), strict=True
        )
    ]
    noisy = [(group, word, changed) for group, word, changed in rows if group != VERBATIM]
    listed = [
        changed
        for group, word, changed in noisy
        if group < len(privatizer.scheme.names)
        and privatizer.table.form(word) in privatizer.words_of(group)
    ]
    changed = [changed for _, _, changed in noisy]
    return [sum(listed) / len(listed), sum(changed) / len(noisy), sum(changed) / len(rows)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mechanism", "categories"), METHODS)
def test_what_is_realized_on_three_corpora_lies_within_the_printed_intervals(
    minilm: EmbeddingTable,
    corpora: dict[str, list[Tagged]],
    name: str,
    mechanism: WordMechanism,
    categories: tuple[str, ...] | None,
) -> None:
    found = text_curve(minilm, mechanism, categories, words=1200, draws=50, seed=0)
    for share in (0.5, 0.2):
        eta = found.eta_for(share).eta
        printed = found.replaced(eta)
        assert printed.protected.value == pytest.approx(share, abs=0.005)
        at = Privatizer(table=minilm, mechanism=mechanism, eta=eta, categories=categories)
        for corpus, texts in corpora.items():
            for share_of, own in zip(printed, realized(at, texts), strict=True):
                assert share_of is not None
                assert share_of.low <= own <= share_of.high, (name, share, corpus, own, share_of)


@pytest.mark.slow
def test_on_one_s_own_text_the_interval_is_narrow_and_right(
    minilm: EmbeddingTable, corpora: dict[str, list[Tagged]]
) -> None:
    """The realized share of 300 texts has an error of its own: within three more per cent."""
    texts = corpora["happydb"]
    counts: Counted = counted((t.words, t.pos, t.identifiers) for t in texts)
    found = text_curve(minilm, PCT2T(), PAPER, counts, words=1200, draws=50, seed=0)
    eta = found.eta_for(0.5).eta
    printed = found.replaced(eta)
    assert printed.protected.high - printed.protected.low < 0.06
    at = Privatizer(table=minilm, mechanism=PCT2T(), eta=eta, categories=PAPER)
    for share_of, own in zip(printed, realized(at, texts), strict=True):
        assert share_of is not None
        assert share_of.low - 0.03 <= own <= share_of.high + 0.03
