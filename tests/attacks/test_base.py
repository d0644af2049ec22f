"""A release as an attacker reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from rapt.attacks.base import Public, Release
from rapt.attacks.inversion import NearestNeighbour
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.utils import files

TEXTS = [["nouna", "the"], ["nouna"]]


def test_a_split_is_read_with_its_vectors_if_it_has_any(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    column = files.column_of_vectors(vectors, np.array([2, 1]))
    for columns in ({"words": TEXTS}, {"words": TEXTS, "vectors": column}):
        files.write_parquet(path, pa.table(columns))
        release = Release.read(path)
        assert release.words == TEXTS
        assert (release.vectors is None) == ("vectors" not in columns)
    np.testing.assert_array_equal(release.vectors, vectors)


def test_equal_words_share_a_vector_and_released_vectors_are_taken(table: EmbeddingTable) -> None:
    vectors, rows = Release(TEXTS).seen(table)
    np.testing.assert_array_equal(rows, [0, 1, 0])
    np.testing.assert_array_equal(vectors, table.embed(["nouna", "the"]))
    own = np.arange(24, dtype=np.float32).reshape(3, 8)
    vectors, rows = Release(TEXTS, own).seen(table)
    assert vectors is own
    np.testing.assert_array_equal(rows, [0, 1, 2])


def test_groups_are_public(table: EmbeddingTable) -> None:
    known = Public.of(Privatizer(table=table, mechanism=T2T(), eta=3.0), None)
    assert known.table is table
    assert known.groups.shape == (len(table.words),)


def test_an_attack_of_one_release_has_nothing_more() -> None:
    assert NearestNeighbour(type="nearest-neighbour").takes == 1
    assert NearestNeighbour(type="nearest-neighbour").given is None
