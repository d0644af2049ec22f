import re
from pathlib import Path

import numpy as np
import pytest

from rapt.utils import memmap


@pytest.fixture
def table(tmp_path: Path) -> np.ndarray:
    values = np.random.default_rng(0).standard_normal((3000, 256)).astype(np.float32)
    np.save(tmp_path / "table.npy", values)
    return np.load(tmp_path / "table.npy", mmap_mode="r")


def resident() -> int:
    """KiB of the table's file that count as this process's memory."""
    maps = Path("/proc/self/smaps").read_text()
    found = re.search(r"table\.npy\nSize:.*\n.*\n.*\nRss:\s+(\d+)", maps)
    assert found
    return int(found[1])


def test_takes_rows_without_mapping_any(table: np.ndarray) -> None:
    rows = np.array([2999, 0, 7, 7])
    taken = memmap.take(table, rows)
    assert resident() == 0
    np.testing.assert_array_equal(taken, np.asarray(table)[rows])
    assert resident() > 0
    assert type(taken) is np.ndarray and taken.flags.writeable


def test_gives_pages_back_and_they_come_again(table: np.ndarray) -> None:
    before = table.sum()
    assert resident() > 2900
    memmap.give_back(table)
    assert resident() == 0
    assert table.sum() == before


def test_walks_with_one_part_in_memory(table: np.ndarray) -> None:
    parts = []
    for start, part in memmap.walk(table, 700):
        parts.append(np.array(part))
        np.testing.assert_array_equal(part[0], np.load(table.filename)[start])
    assert [len(part) for part in parts] == [700, 700, 700, 700, 200]
    np.testing.assert_array_equal(np.concatenate(parts), np.load(table.filename))
    assert resident() == 0


def test_only_whole_tables_mapped_for_reading_are(table: np.ndarray) -> None:
    assert memmap.is_mapped(table)
    copies = np.load(table.filename, mmap_mode="c")
    for other in (np.asarray(table), table[5:], table[:, :8], table.T, copies, np.ones((3, 2))):
        assert not memmap.is_mapped(other)
        memmap.give_back(other)
        rows = np.array([2, 0])
        np.testing.assert_array_equal(memmap.take(other, rows), np.asarray(other)[rows])
    copies[0] = 1  # only in memory: giving it back would lose it
    memmap.give_back(copies)
    assert (copies[0] == 1).all()
