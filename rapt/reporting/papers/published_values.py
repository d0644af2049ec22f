"""The papers' printed numbers, and their names for the entries of params.yaml."""

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
# Note on a figure.
UNPRINTED = "The paper prints no numbers for it, so there is no difference to show."
MODELS = {"meta-llama-3-8b": "llama3-8b", "mistral-7b-v0.1": "mistral-7b"}


@dataclass(frozen=True)
class Printed:
    """One number of a paper.

    Attributes:
        factors: factor of each column, by the paper's names.
        value: in the paper's unit.
        embedding: the model whose table the words were privatized on: η means nothing without it.
        replaced: the share of the words that this η replaces there, if the paper states it.
        command: the command that would run it here; None: there is none.
    """

    factors: dict[str, str]
    value: float
    embedding: str
    replaced: float | None
    command: str | None


@dataclass(frozen=True)
class Own:
    """A planned cell that belongs in a paper's table.

    Attributes:
        factors: factor of each column, by our names.
        printed_as: the same by the paper's names.
        embedding: by the paper's name.
        replaced: the share of the protected words that were replaced, once that is known.
        mean: in the paper's unit, like `sd`; None: it has not run.
        n: number of seeds.
        command: the command that runs it.
        remark: a word that marks it, such as `broken` for its attack; None: no remark.
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
    """Read a file of published numbers, row by row."""
    text = files("rapt.reporting").joinpath("published", name).read_text()
    return tuple(csv.DictReader(text.splitlines()))


def with_preset(name: str, stages: str) -> str:
    """Return the commands that run cells which are not in these params."""
    return f"rapt preset {name}, then dvc repro {stages}"


def model_name(model: str) -> str:
    """Return the papers' name of a model of params.yaml, if they have one."""
    name = model.partition("@")[0].rpartition("/")[-1].lower()
    return MODELS.get(name, name)


def backbone_name(params: Params, name: str) -> str:
    """Return the papers' name of a backbone of params.yaml."""
    backbone = params.backbones[name]
    return "bilstm" if backbone.encoder else model_name(backbone.model)


def embedding_name(params: Params, name: str) -> str:
    """Return the papers' name of an embedding model of params.yaml."""
    return model_name(params.embeddings[name].model)


def tuner_name(params: Params, name: str) -> str:
    """Return the papers' name of a tuner of params.yaml."""
    tuner = params.tuners[name]
    if tuner.type == "lora" and tuner.quantize:
        return "qlora"
    return tuner.type.removesuffix("-tuning")


def tuned(results: Results) -> list[Cell]:
    """Return the tuned cells of the grid and the studies."""
    return [cell for kind in ("train", "study") for cell in results.of(kind)]


def own(results: Results, cell: Cell, metric: str, columns: Sequence[str], **setting: str) -> Own:
    """Convert a cell for a table of accuracies.

    Args:
        results: the results that the cell belongs to.
        cell: a cell of any kind.
        metric: the metric that the table shows.
        columns: the columns of the table.
        setting: columns that are not factors of the cell, by the paper's names and ours.
    """
    params, found = results.params, cell.metric(metric)
    factors = {**cell.factors, **setting}
    named = dict(factors)
    if factors.get("method") == CLEAN:  # the papers have a number for each method; T2T's is used
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
    """Pair each planned row with the printed number of the same setting, or else of the nearest.

    The paper's remaining numbers follow.
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
    """Return the printed number of the same setting, on the same table of words."""
    wanted = (row.printed_as, row.embedding)
    return next((p for p in printed if (p.factors, p.embedding) == wanted), None)


def _nearest(printed: Sequence[Printed], row: Own) -> Printed | None:
    """Return the printed number to compare a row with: at an η that replaces as many words.

    The method, the setting and the attack have to be the same.
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
    """Compute the distance of the replaced shares; None: they are not comparable."""
    etas = (printed.factors["eta"], row.printed_as["eta"])
    if any(map(is_unprotected, etas)):
        return 0.0 if all(map(is_unprotected, etas)) else None
    if printed.replaced is None or row.replaced is None:
        return None
    return abs(printed.replaced - row.replaced)


def _setting(printed: Printed) -> str:
    """Describe a printed number's setting, without the factors that the row beside it shares."""
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
    """Return RAPT's replacement probability by η on a model's table."""
    return {
        row["eta"]: float(row["replacement_probability"])
        for row in read("replacement.csv")
        if row["embedding"] == embedding and not row["accuracy_sst2"]
    }


def varied(planned: Sequence[Own], printed: Sequence[Printed]) -> list[Own]:
    """Select the rows of a study: with several settings, or with one that is printed."""
    several = len({row.printed_as["setting"] for row in planned}) > 1
    return [row for row in planned if several or _same(printed, row)]
