"""Two texts of the attacker's choice: known answers, and the bound of every mechanism."""

from math import inf, isfinite, log
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from rapt.attacks.distinguish import Distinguished, allowed, distinguish
from rapt.audit.cases import ETAS, PARAMETERS, small_table
from rapt.audit.exact import exact_law
from rapt.privacy.mechanisms import MECHANISMS, Space, mechanism
from rapt.text.table import EmbeddingTable
from tests.privacy.units import Doubled

DRAWS = 1800
WIDE = 5 / np.sqrt(DRAWS / 3 / 2)  # five deviations: a false alarm in a million


@pytest.fixture(scope="module")
def toys() -> EmbeddingTable:
    vectors = np.random.default_rng(0).standard_normal((12, 4)) / 2
    return small_table([f"w{at}" for at in range(12)], vectors, np.arange(1.0, 13))


def told(table: EmbeddingTable, made: Any, eta: float, *texts: list[str]) -> Distinguished:
    among = ("noun",) if made.categories == "required" else None
    privatizer = made.privatizer(table=table, eta=eta, categories=among)
    one, other = (privatizer.text(text, ["NOUN"] * len(text)) for text in texts)
    return distinguish(privatizer, one, other, DRAWS, 0)


@pytest.mark.parametrize("eta", [2.0, 8.0, 40.0])
def test_of_gaussian_noise_it_has_the_advantage_of_the_best_attacker(
    toys: EmbeddingTable, eta: float
) -> None:
    """2·Φ(D/2σ) − 1."""
    made: Any = mechanism("gaussian")
    one, other = made.encode([["w0"], ["w1"]], toys)
    best = 2 * norm.cdf(np.linalg.norm(one - other) / made.size(eta) / 2) - 1
    found = told(toys, made, eta, ["w0"], ["w1"])
    assert found.advantage == pytest.approx(best, abs=WIDE)
    assert found.low < best <= found.allowed == allowed(eta, 1e-5)


@pytest.mark.parametrize("eta", [0.5, 4.0])
def test_of_words_of_known_law_it_has_the_advantage_of_the_best_attacker(
    toys: EmbeddingTable, eta: float
) -> None:
    """The total variation of both laws."""
    made = mechanism("santext")
    law = exact_law(made, Space(toys.vectors, toys.frequency), eta)
    assert law is not None
    found = told(toys, made, eta, ["w2"], ["w7"])
    assert found.advantage == pytest.approx(np.abs(law[2] - law[7]).sum() / 2, abs=WIDE)


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_advantage_is_above_what_is_promised(toys: EmbeddingTable, name: str) -> None:
    made = mechanism(name, **PARAMETERS.get(name, {}))
    texts = ["w3", "w1", "w1"], ["w3", "w2", "w1"]
    if name == "dp-forward-as-coded" or PARAMETERS.get(name, {}).get("tokens") == 1:
        texts = ["w1"], ["w2"]
    found = told(toys, made, ETAS.get(name, 1.0), *texts)
    assert found.low <= found.allowed
    assert isfinite(found.loss) == bool(made.claim.proof)
    assert made.claim.proof or found.allowed == 1


@pytest.mark.parametrize("name", ["cape-as-coded", "dpnr-as-coded", "sap"])
def test_what_protects_nothing_is_told_apart_at_any_eta(toys: EmbeddingTable, name: str) -> None:
    found = told(toys, mechanism(name, **PARAMETERS.get(name, {})), 0.01, ["w0"], ["w1"])
    assert found.low > 0.95


@pytest.mark.parametrize("name", ["ome", "ome-as-written"])
def test_what_hardly_ever_happens_is_told_apart(toys: EmbeddingTable, name: str) -> None:
    """At this η a float holds no chance of a flip, whose logarithm is then that of the least."""
    found = told(toys, mechanism(name), 3000.0, ["w0", "w1"], ["w2", "w3"])
    assert found.low > 0.95


def test_equal_texts_are_not_told_apart(toys: EmbeddingTable) -> None:
    found = told(toys, mechanism("t2t"), 1.0, ["w0", "w1"], ["w0", "w1"])
    assert (found.loss, found.allowed) == (0.0, 0.0) and found.low <= 0 <= found.high


def test_another_text_is_told_by_its_words(toys: EmbeddingTable) -> None:
    """A mechanism that writes some words twice hides nothing of them."""
    found = told(toys, Doubled(), 1.0, ["w0", "w1"], ["w0", "w2"])
    assert found.low > 0.9


def test_a_longer_text_is_told_at_once(toys: EmbeddingTable) -> None:
    found = told(toys, mechanism("t2t"), 0.1, ["w0", "w1"], ["w0"])
    assert (found.loss, found.allowed) == (inf, 1.0) and found.low > 0.95


def test_losses_of_words_add_up_and_shared_noise_counts_once(toys: EmbeddingTable) -> None:
    privatizer = mechanism("t2t").privatizer(table=toys, eta=2.0)

    def text(words: list[str], source: list[int] | None = None) -> Any:
        return privatizer.text(words, ["NOUN"] * len(words), noise_source=source)

    apart = np.linalg.norm(np.diff(toys.embed(["w0", "w1"]), axis=0))
    one, other = ["w0", "w5", "w0"], ["w1", "w5", "w1"]
    assert privatizer.loss_between(text(one), text(other))[0] == pytest.approx(4 * apart)
    once = privatizer.loss_between(text(one, [0, 1, 0]), text(other, [0, 1, 0]))
    assert once[0] == pytest.approx(2 * apart)
    assert privatizer.loss_between(text(one, [0, 1, 0]), text(other)) == (inf, 0.0)


def test_words_of_two_categories_have_no_bound(table: EmbeddingTable) -> None:
    privatizer = mechanism("pct2t").privatizer(table=table, eta=2.0, categories=["noun", "verb"])
    one, other = (
        privatizer.text([word], [tag]) for word, tag in (("nouna", "NOUN"), ("verba", "VERB"))
    )
    assert privatizer.loss_between(one, other) == (inf, 0.0)


def test_the_largest_advantage_is_that_of_randomized_response() -> None:
    """It says the truth with e^ε / (1 + e^ε)."""
    assert allowed(log(3)) == pytest.approx(3 / 4 - 1 / 4)
    assert allowed(0.0, 0.1) == pytest.approx(0.1)
    assert allowed(inf) == allowed(1e9) == 1.0


def test_a_claim_of_one_word_counts_for_each_word(toys: EmbeddingTable) -> None:
    privatizer = mechanism("dpnr").privatizer(table=toys, eta=1.0)
    base, once, twice, longer = (
        privatizer.text(text.split(), []) for text in ("w0 w1", "w0 w2", "w3 w2", "w0 w1 w2")
    )
    (one, _), (two, _) = (privatizer.loss_between(base, text) for text in (once, twice))
    assert two == 2 * one < 2.0
    assert privatizer.loss_between(base, longer) == (inf, 0.0)
