from typing import get_args

import numpy as np
import pytest

from rapt import params
from rapt.privacy.categories import CATEGORIES, OTHER, VERBATIM, Scheme, listed
from rapt.utils.errors import RaptError

POS = [["NOUN"], ["VERB"], ["NOUN", "VERB"], ["PUNCT"], ["PROPN"], ["AUX"]]
TAGS = get_args(params.UniversalPos)


def test_without_categories_every_word_is_of_one_group() -> None:
    assert [g.tolist() for g in Scheme(None).groups(POS)] == [[0, 1, 2, 3, 4, 5]]
    assert {Scheme(None).group_of(tag) for tag in TAGS} == {0}


def test_a_group_for_each_category_and_the_rest_verbatim() -> None:
    scheme = Scheme(("noun", "verb"))
    assert [g.tolist() for g in scheme.groups(POS)] == [[0, 2, 4], [1, 2, 5]]
    tags = ("PROPN", "AUX", "PUNCT", "X")
    assert [scheme.group_of(t) for t in tags] == [0, 1, VERBATIM, VERBATIM]


def test_joined_categories_are_one_group() -> None:
    scheme = Scheme(("noun+verb", "symbol"))
    assert scheme.names == ["noun+verb", "symbol"]
    pos = [*POS, ["SYM"]]
    assert [g.tolist() for g in scheme.groups(pos)] == [[0, 1, 2, 4, 5], [3, 6]]
    assert [scheme.group_of(t) for t in ("PROPN", "AUX", "PUNCT", "ADJ")] == [0, 0, 1, VERBATIM]
    (left,) = scheme.not_covered()[1:]
    assert left.startswith("Words of the categories pronoun, preposition, adjective, determiner")


def test_all_is_a_partition_of_the_tags() -> None:
    tags = [tag for name, tags in CATEGORIES.items() if name != OTHER for tag in tags]
    assert len(tags) == len(set(tags))
    scheme = Scheme(("all",))
    assert VERBATIM not in {scheme.group_of(tag) for tag in TAGS}
    every = [[tag] for tag in tags for _ in range(2)]
    rows = np.concatenate(scheme.groups(every))
    assert sorted(rows.tolist()) == list(range(len(every)))


@pytest.mark.parametrize(
    ("categories", "line"),
    [
        (("nuon",), "categories: got 'nuon', expected one of adjective"),
        (("determiner",), "categories: got 0 words of 'determiner'"),
        (("all", "noun"), "categories: got ['all', 'noun'], expected some of noun"),
        (("noun+nuon",), "categories: got 'nuon', expected one of adjective"),
        (("noun+all",), "categories: got ['noun+all'], expected some of noun"),
        ((), "categories: got [], expected some of noun"),
        (("content", "noun"), "categories: got 'content', expected one of adjective"),
        (("other",), "categories: got ['other'], expected some of noun"),
        (("noun+other",), "categories: got 'other' joined to others, expected it by itself"),
    ],
)
def test_errors_say_what_is_allowed(categories: tuple[str, ...], line: str) -> None:
    with pytest.raises(RaptError) as error:
        Scheme(categories).groups(POS)
    assert str(error.value).startswith(line)


def test_a_command_line_lists_categories_either_way() -> None:
    assert listed(["noun, verb", "symbol"]) == ["noun", "verb", "symbol"]
    assert listed([]) is None
    assert listed([""]) is None
