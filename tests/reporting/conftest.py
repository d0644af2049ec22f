"""A synthetic experiment with its report, and how a reader meets them."""

from __future__ import annotations

import csv
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rapt import params, paths, presets
from rapt.grid import PlannedCell, plan
from rapt.params import Params
from rapt.reporting import writer
from rapt.reporting.page import render
from rapt.reporting.rows import to_csv
from rapt.reporting.writer import frames
from rapt.results import reader
from tests.conftest import ROOT, made_once
from tests.reporting import synthetic


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole experiment and its report."""

    def make(folder: Path) -> None:
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            writer.write(reader.load(synthetic.write(folder)))

    return made_once(tmp_path_factory, "reported", make)


@pytest.fixture
def whole(reported: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """The experiment of `reported`, as the working folder: to be read, not changed."""
    monkeypatch.chdir(reported)
    return params.load()


def make(params: Params) -> str:
    writer.write(reader.load(params))
    return paths.REPORT.read_text()


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def table(params: Params, name: str) -> list[dict[str, str]]:
    """One of the report's tables, as its file has it."""
    return list(csv.DictReader(to_csv(frames(reader.load(params))[name]).splitlines()))


def page(params: Params) -> Page:
    """The page without its figures, which take the longest."""
    return Page(render(reader.load(params), []))


class Page(HTMLParser):
    """The page as a reader meets it: its words, what it would load, its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.loads += [
            value or ""
            for name, value in attrs
            if name in ("src", "srcset", "href", "xlink:href", "data", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """The words, with every kind of space as one space."""
        return " ".join(" ".join(self.words).split())


def swept(params: Params, **changes: object) -> Params:
    """Params with another sweep."""
    sweep = params.sweep.model_copy(update=changes)
    return params.model_copy(update={"sweep": sweep})


def planned(params: Params, cell: str) -> PlannedCell:
    return next(c for c in plan(params) if c.cell == cell)


@pytest.fixture
def folder(empty: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and the project's presets."""
    monkeypatch.setattr(presets, "FOLDER", ROOT / "presets")
    return empty


@pytest.fixture
def attacked(folder: Path) -> Params:
    """A whole synthetic experiment whose adapters, of two tuners, are asked for members."""
    return synthetic.write(folder, synthetic.infer_membership)
