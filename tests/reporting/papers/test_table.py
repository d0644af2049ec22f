"""The papers' tables as CSV."""

from __future__ import annotations

import csv

from rapt.params import Params
from rapt.reporting.papers.table import to_csv
from tests.reporting.papers.conftest import found


def test_csv_has_every_row_in_its_unit(whole: Params) -> None:
    for table in found(whole).values():
        rows = list(csv.DictReader(to_csv(table).splitlines()))
        assert len(rows) == len(table.rows)
        assert {row["unit"] for row in rows} <= {table.unit}
