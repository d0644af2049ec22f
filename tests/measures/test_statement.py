from collections import Counter
from typing import Any

import pytest

from rapt.measures.statement import plain_words, statement
from rapt.privacy.fates import NOISE, SHARED, Counts
from rapt.privacy.mechanisms import PCT2T, T2T, word_mechanism
from rapt.privacy.mechanisms.claim import TABLE, TAGS
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable

FATES = Counter(
    {NOISE: 40, "verbatim number": 2, "verbatim other": 5, "placeholder url": 1, SHARED: 0}
)
FOUND: dict[str, Any] = {
    "counts": Counts(documents=3, most=20, fates=FATES),
    "columns": ["stars"],
    "spacing": "single spaces",
    "generator": "dice",
}


def of(table: EmbeddingTable, eta: float, mechanism: str = "pct2t") -> dict[str, Any]:
    categories = None if mechanism == "t2t" else ["noun", "verb"]
    privatizer = Privatizer(
        table=table, mechanism=word_mechanism(mechanism), eta=eta, categories=categories
    )
    return statement(privatizer, eta=f"{eta:g}", **FOUND, task="t")


def test_it_says_what_holds_and_what_does_not(table: EmbeddingTable) -> None:
    content = of(table, 75.0)
    assert content["protection"] == "d_X-privacy"
    assert content["categories"] == ["noun", "verb"]
    assert content["task"] == "t"
    assert content["table_sha256"] == table.sha256
    assert "exp(75 * d(w, w'))" in content["guarantee"]
    assert any("verbatim" in gap for gap in content["not_covered"])
    assert content["words"]["verbatim"] == dict.fromkeys(
        ("email", "handle", "markup", "punctuation", "url"), 0
    ) | {"number": 2, "other": 5}
    assert content["budget_of_the_longest"]["words"] == 20


def test_plain_words_say_the_same(table: EmbeddingTable) -> None:
    text = plain_words(of(table, 75.0))
    assert "3 documents with 48 words were privatized by pct2t at eta 75." in text
    assert "40 words got noise: within their part of speech (noun, verb)." in text
    assert "Released word for word: 2 numbers, 5 other words." in text
    assert "Replaced by placeholders: 1 URLs." in text
    assert "Columns released as they are: stars." in text
    assert "Noise: dice." in text
    assert "weaker than epsilon-differential privacy" in text
    assert "all of them" in plain_words(of(table, 75.0, "t2t"))


def test_without_privatization_it_says_nothing_else(table: EmbeddingTable) -> None:
    content = of(table, float("inf"))
    assert content["protection"] == "unprotected"
    assert "originals" in content["guarantee"]
    assert content["budget_of_the_longest"] is None
    text = plain_words(content)
    assert "UNPROTECTED: the words are the originals." in text
    assert "noise" not in text


def test_a_caveat_and_a_missing_bound_are_said(table: EmbeddingTable) -> None:
    content = of(table, 3.0, "custext")
    assert any("block of each word is released" in gap for gap in content["not_covered"])
    assert "distance" in plain_words(content)


@pytest.mark.parametrize(("name", "says"), [("santext", "δ = 8e-15"), ("t2t", "53 bits")])
def test_what_a_computer_cannot_draw_is_said(table: EmbeddingTable, name: str, says: str) -> None:
    content = of(table, 3.0, name)
    assert any("The law holds" in gap and says in gap for gap in content["not_covered"])


def test_a_mechanism_without_a_law_claims_none(table: EmbeddingTable) -> None:
    content = of(table, 1e4, "truncated-gumbel")
    assert content["protection"] == "no guarantee"
    assert content["guarantee"] == "No guarantee: none is proven for this mechanism."
    assert content["claim"] is None
    text = plain_words(content)
    assert "d_X" not in text.split("Not covered:")[0]
    assert "no bound" in text


class Louder(T2T):
    """A mechanism that states no claim."""


def test_a_subclass_inherits_no_claim(table: EmbeddingTable) -> None:
    content = statement(Privatizer(table=table, mechanism=Louder(), eta=3.0), eta="3", **FOUND)
    assert content["protection"] == "no guarantee"
    assert content["claim"] is None
    assert content["budget_of_the_longest"]["kind"] == "no guarantee"
    losses = content["budget_of_the_longest"]["loss"].values()
    assert {loss["at_most"] for loss in losses} == {None}
    assert "Protection: no guarantee.\nNo guarantee: none is proven" in plain_words(content)


def test_the_claim_is_told_with_its_proof(table: EmbeddingTable) -> None:
    claim = of(table, 3.0, "santext")["claim"]
    assert claim == {
        "domain": "words w, w' of one category",
        "unit": "one word",
        "delta": 18 * 2.0**-51,
        "conditions": [TABLE, TAGS],
        "proof": [f"docs/proofs.md#{n}" for n in ("exponential", "finite-precision", "categories")],
    }


def test_losses_without_a_bound_are_listed(table: EmbeddingTable) -> None:
    assert plain_words(of(table, 3.0, "santext-plus")).count("no bound") >= 1


def test_mechanisms_of_one_release_differ_in_their_scope(table: EmbeddingTable) -> None:
    scopes = [
        Privatizer(table=table, mechanism=T2T(), eta=1.0).scheme.scope(),
        Privatizer(table=table, mechanism=PCT2T(), eta=1.0, categories=["noun"]).scheme.scope(),
    ]
    assert scopes == ["every word", "given the tag sequence, every word of the categories noun"]
