"""Every unit, by every mechanism that releases it: what is written is what is read."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.mechanisms.claim import Claim
from rapt.privacy.mechanisms.hidden_states import HiddenStateMechanism
from rapt.privacy.released import (
    STAND_IN,
    NewText,
    Released,
    TextVector,
    Words,
    WordVectors,
    others,
    positions,
    unit_of,
)
from rapt.text.table import EmbeddingTable
from tests.privacy.units import KINDS, TEXTS, made, prepared

LENGTHS = np.array([len(text) for text in TEXTS])


def written(privatizer: AnyPrivatizer) -> tuple[list[Released], pa.Table]:
    """A release of the texts, and its table."""
    texts, unit = list(privatizer.release(prepared(privatizer))), privatizer.releases
    columns = {"example_id": list("abcd"), "label": [0, 1, 0, 1]}
    if "segment" in unit.copied:
        columns["segment"] = [[0] * length for length in LENGTHS]
    columns |= unit.written(iter(texts), LENGTHS, privatizer.dimension)
    return texts, pa.table(columns)


@pytest.mark.parametrize("name", KINDS)
def test_a_release_is_read_as_it_was_written(table: EmbeddingTable, name: str) -> None:
    privatizer = made(name, table)
    unit, (texts, rows) = privatizer.releases, written(privatizer)
    assert all(type(text) is unit for text in texts)
    read = positions(rows)
    assert read.words == [text.words for text in texts]
    assert [len(text) for text in read.segments] == [len(text) for text in read.words]
    if read.vectors is None:
        assert all(text.vectors is None for text in texts)
    else:
        assert read.vectors.dtype == np.float32
        given = [text.vectors for text in texts]
        np.testing.assert_array_equal(read.vectors, np.concatenate(given))
    for column, values in unit.values(rows).items():
        for text, value in zip(texts, values, strict=True):
            np.testing.assert_array_equal(text.value(column), value)
    assert {*others(rows)} == {"example_id", "label"}
    # Another text has the columns of words, and a model reads it as such.
    assert unit_of(rows.column_names) is (Words if unit is NewText else unit)
    assert {*unit.required} <= {*rows.column_names}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_unit_promises_holds(table: EmbeddingTable, name: str) -> None:
    privatizer = made(name, table)
    unit, (texts, rows) = privatizer.releases, written(privatizer)
    aligned = [len(text.words) for text in texts] == list(LENGTHS)
    assert aligned == unit.aligned
    assert unit.has_channel <= unit.aligned <= unit.has_words
    assert unit.has_words == ("words" in rows.column_names)
    fates = [text.fates for text in texts]
    assert [len(of) for of in fates] == list(LENGTHS) if aligned else fates == [None] * len(texts)
    assert (privatizer.claim.unit == "one word") == (aligned or privatizer.claim == Claim())


@pytest.mark.parametrize("name", KINDS)
def test_neither_order_nor_batches_matter(table: EmbeddingTable, name: str) -> None:
    privatizer = made(name, table)

    def values(texts: list[Released]) -> list[list[object]]:
        columns = privatizer.releases.columns
        return [[np.asarray(text.value(name)).tolist() for name in columns] for text in texts]

    whole = values(list(privatizer.release(prepared(privatizer))))
    back = values(list(privatizer.release(prepared(privatizer)[::-1])))
    # What a model reads depends on the batch by rounding.
    alone = [values(list(privatizer.release([text])))[0] for text in prepared(privatizer)]
    for again in (back[::-1], alone):
        if isinstance(privatizer.mechanism, HiddenStateMechanism):
            every = zip(chain(*again), chain(*whole), strict=True)
            assert all(privatizer.releases.is_equal(*map(np.array, pair)) for pair in every)
        else:
            assert again == whole


@pytest.mark.parametrize("name", KINDS)
def test_without_noise_a_text_is_released_as_it_is(table: EmbeddingTable, name: str) -> None:
    privatizer = made(name, table).at(np.inf)
    for text, released in zip(TEXTS, privatizer.release(prepared(privatizer)), strict=True):
        as_it_is = privatizer.unprotected(text)
        assert released.words == as_it_is.words
        stand_ins = [STAND_IN] * len(released.words)
        assert released.words == (text if privatizer.releases.has_words else stand_ins)
        if as_it_is.vectors is not None:
            grid = getattr(privatizer.mechanism, "grid", 0.0)
            shorter = np.linalg.norm(as_it_is.vectors) > getattr(privatizer.mechanism, "clip", 9e9)
            apart = np.abs(released.vectors - as_it_is.vectors)
            # What a model reads depends on the batch by rounding.
            assert (
                shorter
                or (apart <= grid / 2 + 1e-6 * np.abs(as_it_is.vectors).max(initial=0)).all()
            )


def test_a_text_s_vector_is_made_again_up_to_rounding() -> None:
    """A model's sums depend on the batch. Nothing else of a release may differ at all."""
    one = np.array([3.0, 4.0], np.float32)
    near, far = one + np.float32(1e-6), one + np.float32(1e-3)
    assert TextVector.is_equal(one, near) and not TextVector.is_equal(one, far)
    assert not WordVectors.is_equal(one, near) and WordVectors.is_equal(one, one.copy())
    for other in (None, one[:1], np.full(2, np.nan, np.float32)):
        assert not TextVector.is_equal(one, other)
    assert Words.is_equal(["a"], ["a"]) and not Words.is_equal(["a"], ["b"])


@pytest.mark.parametrize("unit", [WordVectors, TextVector])
@pytest.mark.parametrize("spoil", ["missing", "double", "null", "lists"])
def test_a_column_of_another_type_has_no_values(unit: type[Released], spoil: str) -> None:
    name = unit.columns[-1]
    if spoil == "missing":
        rows = pa.table({"words": [["a"]]})
    else:
        number = pa.float64() if spoil == "double" else pa.float32()
        kind = pa.list_(number) if spoil == "lists" else pa.list_(number, 2)
        value = None if spoil == "null" else [1.0, 2.0]
        if unit is WordVectors:
            kind, value = pa.list_(kind), None if value is None else [value]
        rows = pa.table({"words": [["a"]], name: pa.array([value], kind)})
    assert unit.values(rows)[name] == [None]
