"""Which cells are read and which are removed."""

from dataclasses import replace

from rapt.grid import plan
from rapt.params import Params
from rapt.results import reader
from rapt.utils import files
from tests.reporting import synthetic
from tests.reporting.conftest import planned


def test_pruning_removes_what_is_not_planned(experiment: Params) -> None:
    cell = planned(experiment, "movies-minilm-lora-rapt-75")
    stray = replace(cell, cell="movies-minilm-lora-rapt-33")
    synthetic.write_cell(stray)
    assert reader.prune(experiment) == [stray.path]
    assert not stray.path.exists()
    assert all(planned.path.is_file() for planned in plan(experiment))


def test_protection_is_what_the_statement_says(experiment: Params) -> None:
    cell = planned(experiment, "movies-minilm-lora-rapt-75")
    content = files.read_json(cell.path)
    files.write_json(cell.path, content | {"protection": "no guarantee"})
    assert reader.ReadCell.read(cell).protection == "no guarantee"
    cell.path.unlink()
    assert reader.ReadCell.read(cell).protection == "not run"
