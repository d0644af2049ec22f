"""Each claim names lemmas of docs/proofs.md, and each lemma names tests that exist."""

import ast
import re

import pytest

from rapt.privacy.mechanisms import MECHANISMS
from tests.conftest import ROOT

PAGE = (ROOT / "docs/proofs.md").read_text()
WITHOUT_A_BOUND = ("truncated-gumbel", "cape-as-coded", "dpnr-as-coded", "sap", "privtune")
LEMMAS = {
    title.lower().replace(" ", "-"): text
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_claim_names_lemmas_of_the_page(name: str) -> None:
    claim = MECHANISMS[name].claim
    assert set(claim.within_categories().proof) <= LEMMAS.keys()
    assert claim.places == [f"docs/proofs.md#{anchor}" for anchor in claim.proof]
    assert claim.proof or name in WITHOUT_A_BOUND


def test_each_lemma_serves_a_claim_or_their_composition() -> None:
    named = {n for kind in MECHANISMS.values() for n in kind.claim.within_categories().proof}
    assert LEMMAS.keys() == named | {"composition"}


@pytest.mark.parametrize("lemma", LEMMAS)
def test_a_lemma_is_stated_and_proven_and_names_its_tests(lemma: str) -> None:
    text = LEMMAS[lemma]
    assert "**Lemma.**" in text and "**Proof.**" in text and "∎" in text
    named = re.findall(r"`(tests/[^`]+\.py)::(\w+)`", text)
    assert named
    for path, test in named:
        body = ast.parse((ROOT / path).read_text()).body
        assert test in {part.name for part in body if isinstance(part, ast.FunctionDef)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= LEMMAS.keys()
