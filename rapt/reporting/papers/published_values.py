"""What the papers print, and how they call what params.yaml names."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rapt.grid import CLEAN, is_unprotected
from rapt.params import Params
from rapt.reporting.papers.table import PaperRow
from rapt.reporting.text import percent
from rapt.results.reader import Cell, Results

BERT = "bert-base-uncased"
# Of a figure.
UNPRINTED = "The paper prints no numbers for it, so there is no difference to show."
MODELS = {"meta-llama-3-8b": "llama3-8b", "mistral-7b-v0.1": "mistral-7b"}


@dataclass(frozen=True)
class Printed:
    """One number of a paper.

    Attributes:
        factors: column → what it varies, by the paper's names.
        value: in the paper's unit.
        embedding: the model whose table the words were privatized on: η means nothing without it.
        replaced: the share of the words that this η replaces there, where the paper says so.
        command: what would run it here; None: nothing does.
    """

    factors: dict[str, str]
    value: float
    embedding: str
    replaced: float | None
    command: str | None


@dataclass(frozen=True)
class Own:
    """What is planned here and belongs into a paper's table.

    Attributes:
        factors: column → what it varies, by our names.
        printed_as: the same by the paper's names.
        embedding: by the paper's name.
        replaced: the share of the protected words that were replaced, once that is known.
        mean: in the paper's unit, like `sd`; None: it has not run.
        n: seeds.
        command: what runs it.
        remark: a word that marks it, as that its attack is broken; None: nothing to be said.
    """

    factors: dict[str, str]
    printed_as: dict[str, str]
    embedding: str
    replaced: float | None
    mean: float | None
    sd: float | None
    n: int | None
    command: str | None
    remark: str | None = None


@cache
def read(name: str) -> Sequence[Mapping[str, str]]:
    """A file of published numbers, row by row."""
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return tuple(csv.DictReader(text.splitlines()))


def with_preset(name: str, stages: str) -> str:
    """What runs cells that no cell of these params covers."""
    return f"rapt preset {name}, then dvc repro {stages}"


def model_name(model: str) -> str:
    """A model of params.yaml as the papers call it, where they do."""
    name = model.partition("@")[0].rpartition("/")[-1].lower()
    return MODELS.get(name, name)


def backbone_name(params: Params, name: str) -> str:
    """A backbone of params.yaml as the papers call it."""
    backbone = params.backbones[name]
    return "bilstm" if backbone.encoder else model_name(backbone.model)


def embedding_name(params: Params, name: str) -> str:
    """An embedding model of params.yaml as the papers call it."""
    return model_name(params.embeddings[name].model)


def tuner_name(params: Params, name: str) -> str:
    """A tuner of params.yaml as the papers call it."""
    tuner = params.tuners[name]
    if tuner.type == "lora" and tuner.quantize:
        return "qlora"
    return tuner.type.removesuffix("-tuning")


def tuned(results: Results) -> list[Cell]:
    """The cells of the grid and the studies."""
    return [cell for kind in ("train", "study") for cell in results.of(kind)]


def own(results: Results, cell: Cell, metric: str, columns: Sequence[str], **setting: str) -> Own:
    """A cell in the shape of a table of accuracies.

    Args:
        results: that it is of.
        cell: of any kind.
        metric: that the table shows.
        columns: of the table.
        setting: columns that are no factor of the cell, by the paper's names and ours.
    """
    params, found = results.params, cell.metric(metric)
    factors = {**cell.factors, **setting}
    named = dict(factors)
    if factors.get("method") == CLEAN:  # there each method has a figure of its own; T2T's stands
        named["method"] = "t2t"
    if "backbone" in factors:
        named["backbone"] = backbone_name(params, factors["backbone"])
    if "tuner" in factors:
        named["tuner"] = tuner_name(params, factors["tuner"])
    return Own(
        factors={name: factors[name] for name in columns},
        printed_as={name: named[name] for name in columns},
        embedding=embedding_name(params, cell.factors["embedding"]),
        replaced=results.replaced(cell.factors),
        mean=100 * found.mean if found else None,
        sd=100 * found.sd if found and found.sd is not None else None,
        n=found.n if found else None,
        command=cell.plan.command,
    )


def beside(printed: Sequence[Printed], planned: Sequence[Own]) -> tuple[PaperRow, ...]:
    """What is planned here, each with the number of the same setting or else of the nearest.

    Then what the paper prints beyond that.
    """
    same = [_same(printed, row) for row in planned]
    met = [id(found) for found in same if found]
    return (
        *(_row(row, found, printed) for row, found in zip(planned, same, strict=True)),
        *(
            PaperRow(factors=row.factors, published=row.value, command=row.command)
            for row in printed
            if id(row) not in met
        ),
    )


def _row(row: Own, same: Printed | None, printed: Sequence[Printed]) -> PaperRow:
    shown = same or _nearest(printed, row)
    return PaperRow(
        factors=row.factors,
        published=shown.value if shown else None,
        beside=_setting(shown) if shown and not same else None,
        mean=row.mean,
        sd=row.sd,
        n=row.n,
        command=row.command,
        remark=row.remark,
    )


def _same(printed: Iterable[Printed], row: Own) -> Printed | None:
    """The number of the same setting, on the same table of words."""
    wanted = (row.printed_as, row.embedding)
    return next((p for p in printed if (p.factors, p.embedding) == wanted), None)


def _nearest(printed: Sequence[Printed], row: Own) -> Printed | None:
    """The number to set this row beside: at the η that replaces as many words there.

    What the table asks about, its method and setting, has to be the same.
    """
    asked = {"method", "setting", "attack"} & row.printed_as.keys()
    near = [
        p
        for p in printed
        if all(p.factors[name] == row.printed_as[name] for name in asked)
        and (distance := _distance(p, row)) is not None
        and distance <= 1
    ]
    soft = [name for name in ("tuner", "task", "backbone") if name in row.printed_as]
    return min(
        near,
        key=lambda p: (
            *(p.factors[name] != row.printed_as[name] for name in soft),
            _distance(p, row) or 0.0,
        ),
        default=None,
    )


def _distance(printed: Printed, row: Own) -> float | None:
    """How far apart the replaced shares are; None: not to be compared."""
    etas = (printed.factors["eta"], row.printed_as["eta"])
    if any(map(is_unprotected, etas)):
        return 0.0 if all(map(is_unprotected, etas)) else None
    if printed.replaced is None or row.replaced is None:
        return None
    return abs(printed.replaced - row.replaced)


def _setting(printed: Printed) -> str:
    """A printed number's setting in words, without what the row beside it shares."""
    shown = {
        name: v
        for name, v in printed.factors.items()
        if name not in ("method", "setting", "attack")
    }
    names = " · ".join(f"η = {v}" if name == "eta" else v for name, v in shown.items())
    if printed.replaced is None or is_unprotected(printed.factors["eta"]):
        return names
    return f"{names}, where {percent(printed.replaced)} % of the words are replaced"


def replaced_by(embedding: str) -> dict[str, float]:
    """RAPT's replacement probability by η on a model's table."""
    return {
        row["eta"]: float(row["replacement_probability"])
        for row in read("replacement.csv")
        if row["embedding"] == embedding and not row["accuracy_sst2"]
    }


def varied(planned: Sequence[Own], printed: Sequence[Printed]) -> list[Own]:
    """Rows of a study that is planned here: with several settings, or one that is printed."""
    several = len({row.printed_as["setting"] for row in planned}) > 1
    return [row for row in planned if several or _same(printed, row)]
