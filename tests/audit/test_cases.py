"""The spaces and the words that an audit compares."""

import numpy as np
import pytest

from rapt.audit import AuditChoice, subjects_of
from rapt.audit.cases import UNKNOWN, part, points
from rapt.privacy.mechanisms import MECHANISMS
from rapt.utils.errors import RaptError


def test_each_mechanism_is_audited_in_the_dimension_of_the_table(table) -> None:
    subjects = subjects_of(AuditChoice(draws=100))
    assert [some.mechanism.name for some in subjects] == list(MECHANISMS)
    assert {some.tables[-1].dimension for some in subjects if some.tables} == {384}
    assert [some.mechanism.name for some in subjects if not some.tables] == ["t2t-tokens"]
    (some,) = subjects_of(AuditChoice(["t2t"], table.folder))
    assert some.tables[-1].dimension == table.dimension
    assert set(some.tables[-1].words) <= set(table.words)


def test_words_outside_the_table_are_compared_too() -> None:
    (some,) = subjects_of(AuditChoice(["t2t"]))
    assert any(UNKNOWN in pair for case in some.cases for pair in case.pairs)


def test_the_words_of_a_part_are_the_most_frequent_and_keep_their_directions() -> None:
    whole = points(8)
    few = part(whole, 5)
    assert few.words == whole.words[:-6:-1]
    apart = [np.linalg.norm(t.vectors[0] - t.vectors[1]) for t in (few, part(whole, 2))]
    assert min(apart) > 0.5
    assert np.linalg.norm(few.vectors, axis=1).max() == pytest.approx(0.999)


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (AuditChoice(mechanisms=["tt"]), "mechanism: got 'tt', expected one of adept"),
        (AuditChoice(draws=1), "draws: got 1, expected 2 or more."),
    ],
)
def test_errors_say_what_is_allowed(choice: AuditChoice, line: str) -> None:
    with pytest.raises(RaptError) as error:
        subjects_of(choice)
    assert str(error.value).startswith(line)
