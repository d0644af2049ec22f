import numpy as np
import pytest

from rapt.privacy import strength
from rapt.privacy.mechanisms import PCT2T, T2T, word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError


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


def test_words_weigh_as_they_do_in_public_text() -> None:
    rows = np.arange(3)
    drawn = strength.public_words(np.array([0.6, 0.0, 0.3]), rows, 3000)
    # 2000 of 3000 are expected; 200 off has probability 1e-14.
    assert 0 < abs(np.bincount(drawn)[0] - 2000) < 200 and 1 not in drawn
    assert set(strength.public_words(np.zeros(3), rows, 100)) == {0, 1, 2}


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
