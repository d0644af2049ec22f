"""Tagged texts as attacks on words see them: the victims', and public text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt.attacks.inversion_scores import Victims
from rapt.privacy import seeded
from rapt.privacy.privatizer import Privatizer, Words
from rapt.text.mentions import entities
from rapt.text.tagged import Tagged


def victims(privatizer: Privatizer, tagged: pa.Table) -> Victims:
    """Return the texts under attack, as the privatizer of their release prepares them."""
    return Victims(
        tagged["words"].to_pylist(),
        [text.groups for text in _texts(privatizer, tagged)],
        privatizer.table.form,
        list(_entities(tagged)),
    )


def spelled(privatizer: Privatizer, tagged: pa.Table) -> list[list[str]]:
    """Return the words of texts as the table spells them."""
    return [list(map(privatizer.table.form, text)) for text in tagged["words"].to_pylist()]


def public(privatizer: Privatizer, tagged: pa.Table, attacked: pa.Table) -> list[Words]:
    """Return texts as the privatizer prepares them, without those that are under attack."""
    theirs = set(map(tuple, spelled(privatizer, attacked)))
    is_new = [tuple(text) not in theirs for text in spelled(privatizer, tagged)]
    return list(_texts(privatizer, tagged.filter(pa.array(is_new))))


def with_values(rows: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the places of the texts that have a value of each attribute.

    A task with a label keeps the others, as it is tuned on them.
    """
    valued = np.ones(len(rows), bool)
    for name in names:
        valued &= rows[f"attribute_{name}"].is_valid().to_numpy()
    return np.flatnonzero(valued)


def _texts(privatizer: Privatizer, tagged: pa.Table) -> Iterator[Words]:
    return (privatizer.text(*row) for row in seeded.rows_of(tagged, *seeded.told(tagged)))


def _entities(tagged: pa.Table) -> Iterator[list[range]]:
    """Yield the places of the entities of each source of triples, where they are protected."""
    if seeded.MENTIONS in tagged.column_names:
        columns = ("words", "pos", "space_after", "identifier")
        yield from (entities(Tagged(*row)) for row in seeded.rows_of(tagged, *columns))
