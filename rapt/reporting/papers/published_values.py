"""Planned cells beside the papers' printed numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from rapt.grid import ATTACKED, CLEAN, SCORE, TUNED, is_unprotected
from rapt.reporting import tables, utility_table
from rapt.reporting.papers.layout import Layout
from rapt.reporting.papers.settings import paper_name, setting
from rapt.reporting.papers.table import BLEU, PaperRow
from rapt.reporting.text import percent
from rapt.reporting.written import ALL, OF
from rapt.results.reader import Cell, Results

BERT = "bert-base-uncased"
# The groups of WebNLG's test rows.
GROUPS = (ALL, "seen", "not-seen")


@cache
def read(name: str) -> Sequence[Mapping[str, str]]:
    """Read a file of published numbers, row by row."""
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return tuple(csv.DictReader(text.splitlines()))


def replaced(embedding: str) -> dict[str, float]:
    """Return RAPT's replacement probability by η on a model's table."""
    return {
        row["eta"]: float(row["replacement_probability"])
        for row in read("replacement.csv")
        if row["embedding"] == embedding
    }


@dataclass(frozen=True)
class Compared:
    """A printed number or a planned cell, with what decides which of the others it is set beside.

    Attributes:
        row: its row: a printed number as `published`, a planned cell without.
        named: factor of each column, by the paper's names.
        embedding: the model whose table the words were privatized on, by the paper's name: η means
            nothing without it.
        replaced: the share of the protected words that were replaced, if it is known.
    """

    row: PaperRow
    named: dict[str, str]
    embedding: str
    replaced: float | None


def rows_beside(results: Results, layout: Layout) -> list[PaperRow]:
    """Pair each planned cell with the printed number of the same setting, or else of the nearest.

    The paper's remaining numbers follow.
    """
    printed = list(_printed(layout))
    cells = [cell for kind in layout.kinds for cell in results.of(kind)]
    planned = [own for cell in cells for own in _own(results, layout, cell)]
    same = [_same(printed, own) for own in planned]
    if layout.setting and len({own.named["setting"] for own in planned}) < 2:
        # One setting alone is no study, unless the paper has the same.
        planned = [own for own, found in zip(planned, same, strict=True) if found]
        same = [found for found in same if found]
    met = [id(found) for found in same if found]
    return [
        *(_beside(own, found, printed) for own, found in zip(planned, same, strict=True)),
        *(number.row for number in printed if id(number) not in met),
    ]


def _printed(layout: Layout) -> Iterator[Compared]:
    """Yield a table's printed numbers.

    On clean text RAPT has a number for each method; our one baseline is compared with T2T's. Those
    of Qu et al. are taken as T2T's.
    """
    if not layout.printed:
        return
    numbering = {name: layout.printed[name] for name in ("source", "table")}
    for row in read(layout.printed["file"]):
        if not numbering.items() <= row.items():
            continue
        task, _, group = row["task"].partition("-")
        row = {**row, "task": task, "group": group}
        factors = {name: row[name] for name in layout.columns}
        if factors.get("method") == "none":
            factors["method"] = "t2t"
        embedding = row["setting"] if layout.setting == "embedding" else layout.paper.embedding
        is_bleu = row["metric"] == "bleu"
        command = _command(layout, factors, is_bleu)
        share = _replaced(row["source"], embedding, row["eta"])
        factors["task"] += BLEU * is_bleu
        row_of_it = PaperRow(factors, published=float(row["value"]), command=command)
        yield Compared(row_of_it, factors, embedding, share)


def _replaced(source: str, embedding: str, eta: str) -> float | None:
    """Return a paper's share of replaced words: in Qu et al.'s inversion, those not found."""
    if source != "qu-2021":
        return replaced(embedding).get(eta)
    of_sst2 = {row["eta"]: row["value"] for row in read("inversion.csv") if row["task"] == "sst2"}
    return 1 - float(of_sst2[eta]) / 100 if eta in of_sst2 else None


def _command(layout: Layout, factors: Mapping[str, str], is_bleu: bool) -> str | None:
    """Return the command that runs a printed number; None: no preset has it."""
    stage = "score" if is_bleu else "invert" if "invert" in layout.kinds else "train"
    if is_unprotected(factors["eta"]):
        if factors["method"] != "t2t":
            return None
        stage = f"{stage}-clean"
    for entry in layout.presets:
        if is_bleu and "task" not in entry:
            continue
        if all(factors[name] in entry[name] for name in entry if name != "preset"):
            return f"rapt preset {entry['preset']}, then dvc repro {stage}"
    return None


def _own(results: Results, layout: Layout, cell: Cell) -> Iterator[Compared]:
    """Yield a cell's numbers for a table; none if it does not belong there."""
    params, factors, doubt = results.params, dict(cell.factors), None
    if layout.setting:
        varied = setting(layout.setting, params, factors)
        if varied is None:
            return
        factors["setting"] = varied
    named = {name: paper_name(params, name, value) for name, value in factors.items()}
    inside = all(named[name] in values for name, values in layout.cells.items())
    if not inside or any(named[name] in values for name, values in layout.without.items()):
        return
    if cell.plan.kind in TUNED and not utility_table.classifies(results, cell):
        return  # its texts have scores of their own
    if cell.plan.kind in ATTACKED:
        if params.attacks[factors["attack"]].given:
            return
        (doubt,) = tables.doubts(results, [cell]).values()
    if layout.setting == "embedding":
        named["setting"] = named["embedding"]
    if layout.setting:
        named["method"] = "rapt"  # whose parts the paper's studies vary
    elif factors["method"] == CLEAN:
        named["method"] = "t2t"
    if cell.plan.kind == SCORE:
        named["task"] += BLEU
        factors["task"] += BLEU
    for metric, more in _measures(results, layout, cell):
        shown = factors | more
        found = cell.metric(metric)
        row = PaperRow.of_shares(
            {name: shown[name] for name in layout.columns},
            cell.plan.command,
            *((found.mean, found.sd, found.n) if found else ()),
            remark=doubt if found else None,
        )
        if "group" in more:
            named["group"] = paper_name(params, "group", more["group"])
        of_columns = {name: named[name] for name in layout.columns}
        yield Compared(row, of_columns, named["embedding"], results.replaced(cell.factors))


def _measures(results: Results, layout: Layout, cell: Cell) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the metrics of a cell that a table shows, with their factors besides the cell's."""
    task = cell.factors["task"]
    if cell.plan.kind == SCORE:
        for group in GROUPS if "group" in layout.columns else [ALL]:
            yield "bleu" if group == ALL else f"{OF}{group}", {"group": group}
        return
    yield "accuracy", {}
    chooses = cell.plan.kind in TUNED and results.params.tasks[task].kind == "choose"
    if chooses and task in layout.paper.tasks:
        yield "exact_match", {"task": f"{task}, exact match"}


def _beside(own: Compared, same: Compared | None, printed: Sequence[Compared]) -> PaperRow:
    shown = same or _nearest(printed, own)
    if shown is None:
        return own.row
    beside = None if same else _described(shown)
    return replace(own.row, published=shown.row.published, beside=beside)


def _same(printed: Iterable[Compared], own: Compared) -> Compared | None:
    """Return the printed number of the same setting, on the same table of words."""
    wanted = (own.named, own.embedding)
    return next((p for p in printed if (p.named, p.embedding) == wanted), None)


def _nearest(printed: Sequence[Compared], own: Compared) -> Compared | None:
    """Return the printed number to compare a row with: at an η that replaces as many words.

    The method, the setting and the attack have to be the same, and BLEU is compared with BLEU.
    """
    asked = {"method", "setting", "attack", "group"} & own.named.keys()
    is_bleu = own.named["task"].endswith(BLEU) if "task" in own.named else False
    soft = [name for name in ("tuner", "task", "backbone") if name in own.named]
    near = [
        ([p.named[name] != own.named[name] for name in soft], distance, place)
        for place, p in enumerate(printed)
        if all(p.named[name] == own.named[name] for name in asked)
        and p.named.get("task", "").endswith(BLEU) == is_bleu
        and (distance := _distance(p, own)) is not None
    ]
    return printed[min(near)[-1]] if near else None


def _distance(printed: Compared, own: Compared) -> float | None:
    """Compute the distance of the replaced shares; None: they are not comparable."""
    unprotected = [is_unprotected(of.named["eta"]) for of in (printed, own)]
    if any(unprotected):
        return 0.0 if all(unprotected) else None
    if printed.replaced is None or own.replaced is None:
        return None
    return abs(printed.replaced - own.replaced)


def _described(printed: Compared) -> str:
    """Describe a printed number's setting, without the factors that the row beside it shares."""
    names = " · ".join(
        f"η = {value}" if name == "eta" else value
        for name, value in printed.named.items()
        if name not in ("method", "setting", "attack", "group")
    )
    if printed.replaced is None or is_unprotected(printed.named["eta"]):
        return names
    return f"{names}, where {percent(printed.replaced)} % of the words are replaced"
