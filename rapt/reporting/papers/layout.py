"""The layout of the papers' tables and figures, from published/tables.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML


@dataclass(frozen=True)
class Experiment:
    """The settings of a paper's experiment.

    Attributes:
        title: the paper.
        tasks: tasks that it tunes on, by the names of params.yaml; empty: not stated.
        backbones: backbones, by the paper's names.
        embedding: model whose table the words are privatized on.
        epochs: epochs of training.
        batch_size: batch size of training.
        max_tokens: most tokens of a text.
        seeds: number of seeds that it averages over; None: not stated.
        learning_rate: learning rate; None: it has several.
        plain_tokens: plain tokens before each text; None: it has none.
    """

    title: str
    tasks: Sequence[str]
    backbones: Sequence[str]
    embedding: str
    epochs: int
    batch_size: int
    max_tokens: int
    seeds: int | None = None
    learning_rate: float | None = None
    plain_tokens: int | None = None


@dataclass(frozen=True)
class Layout:
    """A table or a figure of a paper: what it shows of an experiment and of the paper.

    Its rows are planned cells beside printed numbers, or come from a function of rows.py.

    Attributes:
        name: for files and anchors, as rapt-table-2.
        title: title of the content.
        paper: the paper's experiment.
        place: the paper's own numbering.
        columns: the factors of a row.
        unit: of its numbers; empty if rows have only factors.
        rows: the function of rows.py; None: planned cells beside printed numbers.
        kinds: kinds of the planned cells.
        cells: the values that a cell's factors must have. Tuners and attacks are named as in the
            papers.
        without: values that they must not have.
        setting: the function of settings.py that finds what a study varies; None: no study.
        printed: the file, source and table of the printed numbers; None: it prints none.
        presets: presets with the printed numbers that they run, by factor; the first one counts.
        empty: the command that makes rows where there are none, and the values of one column.
        compared: the settings that `setup_differences` compares, or the sentence itself.
        note: a further remark; None: none.
    """

    name: str
    title: str
    paper: Experiment
    place: str
    columns: Sequence[str]
    unit: str = ""
    rows: str | None = None
    kinds: Sequence[str] = ("train", "study")
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    setting: str | None = None
    printed: Mapping[str, str] | None = None
    presets: Sequence[Mapping[str, Any]] = ()
    empty: Mapping[str, Any] | None = None
    compared: str = "training"
    note: str | None = None


@cache
def layouts() -> dict[str, Layout]:
    """Return the layout of each table and figure by name, in the report's order."""
    path = files("rapt.reporting").joinpath("published", "tables.yaml")
    content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    papers = {name: Experiment(**settings) for name, settings in content["papers"].items()}
    return {entry["name"]: _layout(papers, entry) for entry in content["tables"]}


def _layout(papers: Mapping[str, Experiment], entry: dict[str, Any]) -> Layout:
    """Build one layout; its key `on` holds settings of the paper for this table alone."""
    paper = replace(papers[entry["paper"]], **entry.get("on", {}))
    own = {name: value for name, value in entry.items() if name != "on"}
    return Layout(**own | {"paper": paper})
