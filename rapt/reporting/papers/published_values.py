"""Planned cells beside the papers' printed numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rapt.grid import ATTACKED, CLEAN, is_unprotected
from rapt.reporting import tables
from rapt.reporting.papers.layout import Layout
from rapt.reporting.papers.settings import NAMES, SETTINGS, embedding_name
from rapt.reporting.papers.table import PaperRow
from rapt.reporting.published import BERT, inverted, read, replaced
from rapt.reporting.text import percent
from rapt.results.reader import Cell, Results


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
    planned = _planned(results, layout)
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
    of Qu et al. are taken as T2T's. BLEU of generated text is compared with no accuracy.
    """
    if not layout.printed:
        return
    numbering = {name: layout.printed[name] for name in ("source", "table")}
    for row in read(layout.printed["file"]):
        if not numbering.items() <= row.items():
            continue
        factors = {name: row[name] for name in layout.columns}
        if factors.get("method") == "none":
            factors["method"] = "t2t"
        generated = row["metric"] == "bleu"
        if generated:
            factors["task"] += ", BLEU"
        command = None if generated else _command(layout, factors)
        embedding = row["setting"] if layout.setting == "embedding" else BERT
        shares = {} if generated else _replaced(row["source"], embedding)
        yield Compared(
            PaperRow(factors, published=float(row["value"]), command=command),
            factors,
            embedding,
            shares.get(row["eta"]),
        )


def _replaced(source: str, embedding: str) -> dict[str, float]:
    """Return a paper's shares of replaced words by η."""
    if source == "qu-2021":
        return {eta: 1 - share for eta, share in inverted().items()}
    return replaced(embedding)


def _command(layout: Layout, factors: Mapping[str, str]) -> str | None:
    """Return the command that runs a printed number; None: no preset has it."""
    stage = "invert" if "invert" in layout.kinds else "train"
    if is_unprotected(factors["eta"]):
        if factors["method"] != "t2t":
            return None
        stage = f"{stage}-clean"
    for entry in layout.presets:
        if all(factors[name] in entry[name] for name in entry if name != "preset"):
            return f"rapt preset {entry['preset']}, then dvc repro {stage}"
    return None


def _planned(results: Results, layout: Layout) -> list[Compared]:
    cells = (cell for kind in layout.kinds for cell in results.of(kind))
    return [own for cell in cells if (own := _own(results, layout, cell))]


def _own(results: Results, layout: Layout, cell: Cell) -> Compared | None:
    """Convert a cell for a table; None: it does not belong there."""
    params, factors = results.params, dict(cell.factors)
    if layout.setting:
        setting = SETTINGS[layout.setting](params, factors)
        if setting is None:
            return None
        factors["setting"] = setting
    named = {n: NAMES[n](params, value) if n in NAMES else value for n, value in factors.items()}
    embedding = embedding_name(params, factors["embedding"])
    if not _belongs(layout, named):
        return None
    doubt = None
    if cell.plan.kind in ATTACKED:
        if params.attacks[factors["attack"]].given:
            return None
        (doubt,) = tables.doubts(results, [cell]).values()
    if layout.setting == "embedding":
        named["setting"] = embedding
    if layout.setting:
        named["method"] = "rapt"  # whose parts the paper's studies vary
    elif factors["method"] == CLEAN:
        named["method"] = "t2t"
    found = cell.metric("accuracy")
    row = PaperRow(
        factors={name: factors[name] for name in layout.columns},
        mean=100 * found.mean if found else None,
        sd=100 * found.sd if found and found.sd is not None else None,
        n=found.n if found else None,
        command=cell.plan.command,
        remark=doubt if found else None,
    )
    of_columns = {name: named[name] for name in layout.columns}
    return Compared(row, of_columns, embedding, results.replaced(cell.factors))


def _belongs(layout: Layout, named: Mapping[str, str]) -> bool:
    inside = all(named[name] in values for name, values in layout.cells.items())
    return inside and not any(named[name] in values for name, values in layout.without.items())


def _beside(own: Compared, same: Compared | None, printed: Sequence[Compared]) -> PaperRow:
    shown = same or _nearest(printed, own)
    if shown is None:
        return own.row
    return replace(
        own.row, published=shown.row.published, beside=None if same else _described(shown)
    )


def _same(printed: Iterable[Compared], own: Compared) -> Compared | None:
    """Return the printed number of the same setting, on the same table of words."""
    wanted = (own.named, own.embedding)
    return next((p for p in printed if (p.named, p.embedding) == wanted), None)


def _nearest(printed: Sequence[Compared], own: Compared) -> Compared | None:
    """Return the printed number to compare a row with: at an η that replaces as many words.

    The method, the setting and the attack have to be the same.
    """
    asked = {"method", "setting", "attack"} & own.named.keys()
    near = [
        p
        for p in printed
        if all(p.named[name] == own.named[name] for name in asked) and _distance(p, own) is not None
    ]
    soft = [name for name in ("tuner", "task", "backbone") if name in own.named]
    return min(
        near,
        key=lambda p: (
            *(p.named[name] != own.named[name] for name in soft),
            _distance(p, own) or 0.0,
        ),
        default=None,
    )


def _distance(printed: Compared, own: Compared) -> float | None:
    """Compute the distance of the replaced shares; None: they are not comparable."""
    etas = (printed.named["eta"], own.named["eta"])
    if any(map(is_unprotected, etas)):
        return 0.0 if all(map(is_unprotected, etas)) else None
    if printed.replaced is None or own.replaced is None:
        return None
    return abs(printed.replaced - own.replaced)


def _described(printed: Compared) -> str:
    """Describe a printed number's setting, without the factors that the row beside it shares."""
    shown = {
        name: v for name, v in printed.named.items() if name not in ("method", "setting", "attack")
    }
    names = " · ".join(f"η = {v}" if name == "eta" else v for name, v in shown.items())
    if printed.replaced is None or is_unprotected(printed.named["eta"]):
        return names
    return f"{names}, where {percent(printed.replaced)} % of the words are replaced"
