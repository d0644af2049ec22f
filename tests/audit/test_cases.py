"""Which inputs an audit compares."""

import numpy as np
import pytest

from rapt.audit import Choice, cases_of
from rapt.audit.cases import BUILT_IN, space
from rapt.utils.errors import RaptError


def test_the_small_space_keeps_the_words_of_the_table() -> None:
    table, words = space(Choice(dimensions=2))
    assert words == list(BUILT_IN) == table.words
    off = np.linalg.norm(table.vectors[:, None] - table.vectors, axis=2)[np.triu_indices(12, 1)]
    assert np.median(off) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (Choice(mechanisms=["tt"]), "mechanism: got 'tt', expected one of adept"),
        (Choice(words=["thre"]), "words: got 'thre', expected words of the table. Did you mean"),
        (Choice(dimensions=12), "dimensions: got 12, expected 1 to 11 for 12 words."),
        (Choice(etas=[0]), "eta: got 0, expected a number above 0"),
        (Choice(draws=1), "draws: got 1, expected 2 or more."),
    ],
)
def test_errors_say_what_is_allowed(choice: Choice, line: str) -> None:
    with pytest.raises(RaptError) as error:
        cases_of(choice)
    assert str(error.value).startswith(line)
