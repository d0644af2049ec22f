import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rapt.audit.cases import small_table
from rapt.measures import strength
from rapt.measures.replacement import text_curve
from rapt.privacy.mechanisms import MECHANISMS, PCT2T, T2T, WordMechanism, word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError


def of_frequent_words(minilm: EmbeddingTable, count: int, folder: Path) -> EmbeddingTable:
    """The table of MiniLM's most frequent words."""
    shutil.copytree(minilm.folder, folder)
    most = np.sort(np.argsort(-minilm.frequency, kind="stable")[:count])
    content = files.read_json(folder / "words.json")
    for key in ("word", "pos", "frequency"):
        content[key] = [content[key][at] for at in most]
    files.write_json(folder / "words.json", content)
    np.save(folder / "vectors.npy", minilm.vectors[most])
    return EmbeddingTable(folder)


@pytest.fixture(scope="module")
def real(minilm: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingTable:
    return of_frequent_words(minilm, 6000, tmp_path_factory.mktemp("table") / "real")


@pytest.fixture(scope="module")
def fewer(minilm: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingTable:
    """Enough for a search for η, whose steps take as long as the table is large."""
    return of_frequent_words(minilm, 1500, tmp_path_factory.mktemp("table") / "fewer")


def made(table: EmbeddingTable, eta: float) -> Privatizer:
    return Privatizer(table=table, mechanism=T2T(), eta=eta)


def test_the_share_falls_with_eta_and_lies_in_its_interval(table: EmbeddingTable) -> None:
    shares = [strength.replaced(made(table, eta)) for eta in (0.01, 1.0, 3.0, 1e6)]
    values = [share.value for share in shares]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.8 and values[-1] == 0
    assert all(share.low <= share.value + 1e-12 for share in shares)
    assert all(share.value <= share.high + 1e-12 for share in shares)
    assert strength.replaced(made(table, 1.0)) == shares[1]


@pytest.mark.parametrize(("name", "categories"), [("t2t", None), ("pct2t", ("content",))])
def test_it_is_the_share_that_rapt_calibrate_finds(
    real: EmbeddingTable, name: str, categories: tuple[str, ...] | None
) -> None:
    mechanism = word_mechanism(name)
    curve = text_curve(real, mechanism, categories, words=1200, draws=20, seed=1)
    for eta in (50.0, 75.0, 100.0):
        at = Privatizer(table=real, mechanism=mechanism, eta=eta, categories=categories)
        share = strength.replaced(at)
        # Words and noise were drawn once and are fixed; by four errors of the smaller sample.
        reach = 2 * (share.high - share.low)
        assert share.value == pytest.approx(curve.replaced(eta).known.value, abs=reach)


def test_a_level_that_replaces_hardly_a_word_is_refused_with_one_that_does(
    table: EmbeddingTable,
) -> None:
    with pytest.raises(RaptError, match=r"^eta: got 1e\+09, which replaces 0% of .* Try eta ") as e:
        strength.check(made(table, 1e9))
    eta = float(str(e.value).split("Try eta ")[1].split(",")[0])
    strength.check(made(table, 0.99 * eta))
    assert strength.replaced(made(table, 2 * eta)).value < strength.ENOUGH


def test_it_measures_the_words_of_the_categories(table: EmbeddingTable) -> None:
    nouns = Privatizer(table=table, mechanism=PCT2T(), eta=0.01, categories=["noun"])
    assert strength.replaced(nouns).value > 0.7


def test_a_bayesian_attacker_undoes_the_second_nearest_word(table: EmbeddingTable) -> None:
    vickrey = Privatizer(table=table, mechanism=word_mechanism("vickrey"), eta=10.0)
    kept = 1 - strength.replaced(vickrey).value
    assert strength.read(vickrey) > kept + 0.05
    assert strength.read(vickrey.at(1e9)) == 1
    assert strength.read(made(table, 0.1)) < 0.5


def test_a_level_at_which_he_names_the_words_is_refused_with_one_that_does(
    table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strength, "read", lambda privatizer: 0.95 if privatizer.eta > 20 else 0.5)
    vickrey = Privatizer(table=table, mechanism=word_mechanism("vickrey"), eta=30.0)
    with pytest.raises(RaptError, match=r"^eta: got 30, at which .* names 95% .* Try eta 19\.\d,"):
        strength.check(vickrey)
    strength.check(vickrey.at(19.8))


@pytest.mark.parametrize("name", ["t2t", "vickrey"])
def test_several_releases_are_read_better_than_one(real: EmbeddingTable, name: str) -> None:
    privatizer = Privatizer(table=real, mechanism=word_mechanism(name), eta=75.0)
    shares = [strength.read_after(privatizer, times) for times in (1, 2, 5, 10)]
    # Of 200 words: a standard error of at most 3.5 points.
    assert all(after > before - 0.1 for before, after in pairwise(shares))
    assert shares[0] == pytest.approx(strength.read(privatizer), abs=0.2)
    assert shares[-1] > shares[0] + 0.2
    assert strength.read_after(privatizer, 1000) == shares[-1]  # no more are drawn


# At a large η each mechanism that releases words hardly changes one, but for two: their chance to
# replace a word has a part that does not fall with η, and which the attacker does not undo.
REPLACES_ALWAYS = {"santext-plus", "truncated-gumbel"}
TOO_FEW = {"imola"}  # which takes at most 60 words
WORDWISE = [name for name, kind in MECHANISMS.items() if issubclass(kind, WordMechanism)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*WORDWISE} - REPLACES_ALWAYS - TOO_FEW))
def test_a_very_large_eta_is_refused_and_the_one_that_is_named_passes(
    fewer: EmbeddingTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strength, "ATTACKED", 100)
    mechanism = word_mechanism(name)
    at = Privatizer(
        table=fewer,
        mechanism=mechanism,
        eta=1e6,
        categories=("content",) if mechanism.categories == "required" else None,
    )
    with pytest.raises(RaptError, match=r"^eta: got 1e\+06, .*\. Try eta [\d.e+]+, or") as error:
        strength.check(at)
    named = float(re.findall(r"Try eta ([\d.e+]+),", str(error.value))[0])
    strength.check(at.at(named))


def test_what_is_always_replaced_can_still_be_read(real: EmbeddingTable) -> None:
    """Vickrey's second-nearest word alone; where several words share it, one is named."""
    at = Privatizer(table=real, mechanism=word_mechanism("vickrey", threshold=1.0), eta=1e6)
    assert strength.replaced(at).value > 0.95
    assert strength.read(at) > 0.5


@pytest.mark.parametrize(("name", "categories"), [("t2t", None), ("pct2t", ("content",))])
@pytest.mark.parametrize("eta", [50.0, 75.0])
def test_usual_etas_pass(
    real: EmbeddingTable, name: str, categories: tuple[str, ...] | None, eta: float
) -> None:
    made = word_mechanism(name)
    strength.check(Privatizer(table=real, mechanism=made, eta=eta, categories=categories))


def test_vickrey_is_weak_where_its_second_word_can_be_undone(minilm: EmbeddingTable) -> None:
    at = Privatizer(table=minilm, mechanism=word_mechanism("vickrey"), eta=4000.0)
    assert strength.replaced(at).value > strength.ENOUGH
    with pytest.raises(RaptError, match=r"at which a Bayesian attacker names \d+%"):
        strength.check(at)


def test_one_release_is_read_as_bayes_rule_reads_it() -> None:
    """Two words at distance 1: by Laplace's noise in one dimension, where the attacker is exact."""
    table = small_table(["left", "right"], np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))
    at = Privatizer(table=table, mechanism=T2T(), eta=2.0)
    # He names the released word, which is the original unless the noise exceeds ½ to its side.
    exact = 1 - np.exp(-2.0 * 0.5) / 2
    assert strength.read_after(at, 1) == pytest.approx(exact, abs=0.15)  # 4 errors and more
    assert strength.read_after(at, 10) > exact
