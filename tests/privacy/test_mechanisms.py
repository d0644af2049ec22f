from typing import get_args

import numpy as np
import pytest

from rapt import params
from rapt.errors import RaptError
from rapt.privacy.mechanisms import CATEGORIES, MECHANISMS, PCT2T, REST, T2T, VERBATIM, mechanism

POS = [["NOUN"], ["VERB"], ["NOUN", "VERB"], ["PUNCT"], ["PROPN"], ["AUX"]]


def test_params_allow_exactly_the_mechanisms_and_categories() -> None:
    assert set(get_args(params.Mechanism)) == set(MECHANISMS)
    assert set(get_args(params.Category)) == {*CATEGORIES, "all"}


def test_t2t_gives_every_word_noise_over_the_whole_table() -> None:
    assert T2T().groups(POS)[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert {T2T().group_of(tag) for tag in get_args(params.UniversalPos)} == {0}


def test_pct2t_searches_within_the_category_and_leaves_the_rest() -> None:
    pct2t = PCT2T(("noun", "verb"))
    assert [g.tolist() for g in pct2t.groups(POS)] == [[0, 2, 4], [1, 2, 5]]
    assert [pct2t.group_of(t) for t in ("PROPN", "AUX", "PUNCT", "X")] == [0, 1, VERBATIM, VERBATIM]


def test_all_is_a_partition_of_the_tags() -> None:
    tags = [tag for tags in (CATEGORIES | REST).values() for tag in tags]
    assert len(tags) == len(set(tags))
    pct2t = PCT2T(("all",))
    assert VERBATIM not in {pct2t.group_of(tag) for tag in get_args(params.UniversalPos)}
    every = [[tag] for tag in tags for _ in range(2)]
    rows = np.concatenate(pct2t.groups(every))
    assert sorted(rows.tolist()) == list(range(len(every)))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: mechanism("t3t", None), "mechanism: 't3t' given, allowed: pct2t, t2t; did you"),
        (lambda: PCT2T(("nuon",)), "categories: 'nuon' given, allowed: adjective"),
        (lambda: PCT2T(("determiner",)).groups(POS), "categories: 'determiner' has 0 words"),
    ],
)
def test_errors_say_what_is_allowed(call: object, line: str) -> None:
    with pytest.raises(RaptError) as error:
        call()  # type: ignore[operator]
    assert str(error.value).startswith(line)
