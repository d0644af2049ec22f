"""The layout of the papers' tables and figures, from published/tables.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from ruamel.yaml import YAML

# What a study of the papers varies.
Study = Literal["embedding", "prefix-length", "choice", "objective", "plain-length"]


@dataclass(frozen=True)
class Experiment:
    """The settings of a paper's experiment, models and tasks by the paper's names.

    None: the paper does not state it, or has several. No `tasks`: not stated. `of_task` has the
    settings that hold for one of its tasks alone.
    """

    title: str
    tasks: Sequence[str]
    backbones: Sequence[str]
    embedding: str
    epochs: int | None = None
    batch_size: int | None = None
    max_tokens: int | None = None
    seeds: int | None = None
    learning_rate: float | None = None
    plain_tokens: int | None = None
    of_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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
        setting: what a study varies, by settings.py; None: no study.
        printed: the file, source and table of the printed numbers; None: it prints none.
        presets: presets with the printed numbers that they run, by factor; the first one counts.
        empty: the command that makes rows where there are none, and the values of one column.
        compared: what settings.py compares, or the sentence itself.
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
    setting: Study | None = None
    printed: Mapping[str, str] | None = None
    presets: Sequence[Mapping[str, Any]] = ()
    empty: Mapping[str, Any] | None = None
    compared: str = "training"
    note: str | None = None


@cache
def layouts() -> dict[str, Layout]:
    """Return the layout of each table and figure by name, in the report's order.

    The key `on` of an entry holds settings of the paper for this table alone.
    """
    path = files("rapt.reporting").joinpath("published", "tables.yaml")
    content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    papers = {name: Experiment(**settings) for name, settings in content["papers"].items()}
    found = {}
    for entry in content["tables"]:
        paper = replace(papers[entry.pop("paper")], **entry.pop("on", {}))
        found[entry["name"]] = Layout(paper=paper, **entry)
    return found
