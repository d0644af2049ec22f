"""The papers' printed numbers beside the cells of this project, as one long table.

A cell stands beside the number with the same metric, study, attack, tuner and method. Where task,
backbone, embedding table and η are the same as well, the two are subtracted. Otherwise the number
is for orientation alone, and its η is one that replaces about as many words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from rapt.grid import ATTACKED, CLEAN, SCORE, TUNED, UNPROTECTED_ETA
from rapt.params import Method, Params
from rapt.reporting import tables, utility_table
from rapt.reporting.rows import once
from rapt.reporting.text import MINUS, NBSP, PLUS_MINUS
from rapt.reporting.written import ALL, OF
from rapt.results.reader import Json, ReadCell, Results

SOURCES = {
    "rapt-v3": "RAPT (arXiv 2305.06212v3)",
    "rapt-v2": "RAPT (arXiv 2305.06212v2)",
    "qu-2021": "Qu et al. (CIKM 2021)",
}
# The papers' names of what is called otherwise here.
NAMES = {
    "meta-llama-3-8b": "llama3-8b",
    "mistral-7b-v0.1": "mistral-7b",
    "not-seen": "unseen",
}
# A number and a cell are compared where these are equal, and subtracted where PLACE is as well.
SAME = ["metric", "study", "setting", "attack", "group", "tuner", "method"]
PLACE = ["task", "backbone", "embedding", "eta"]
FACTORS = [*SAME[:5], "task", "backbone", "tuner", "method", "embedding", "eta"]
OURS = ["mean", "sd", "n", "remark", "replaced", "command"]
COLUMNS = [
    *("source", "table", *FACTORS, "published", "beyond"),
    *(f"published_{name}" for name in (*PLACE, "replaced")),
    *(*OURS[:-1], "difference", "command"),
]
# What the papers' studies vary.
STUDIES = ("embedding", "prefix-length", "choice", "objective")
# The groups of WebNLG's test rows, and what the best published systems reach on it, about.
GROUPS = (ALL, "seen", "not-seen")
BEST_BLEU = 62
# The measurements of RAPT's Table X in reports/benchmarks.json.
EDGE = {"seconds": "time", "MiB": "peak memory over the interpreter"}


@cache
def read() -> pd.DataFrame:
    """Read the printed numbers, in percent where no unit is their metric; `replaced` is a share."""
    path = files("rapt.reporting").joinpath("published", "published.csv")
    with path.open(encoding="utf-8") as file:
        printed = pd.read_csv(file, dtype=str, keep_default_na=False)
    return printed.assign(
        value=printed["value"].astype(float), replaced=pd.to_numeric(printed["replaced"])
    )


@once
def joined(results: Results) -> pd.DataFrame:
    """Return the cells beside their printed numbers, then the numbers that are left, by table.

    Numbers are in the unit of `published`. Missing ones have the command that runs them.
    """
    printed = read().assign(line=range(len(read()))).rename(columns={"value": "published"})
    moved = {name: f"published_{name}" for name in (*FACTORS, "replaced")}
    columns = [*FACTORS, *(f"paper_{name}" for name in FACTORS), *OURS]
    ours = pd.DataFrame(_ours(results), columns=columns).assign(cell=lambda own: range(len(own)))
    both = ours.merge(
        printed.drop(columns="command").rename(columns=moved),
        left_on=[f"paper_{name}" for name in SAME],
        right_on=[moved[name] for name in SAME],
    )
    for name in PLACE:
        both[f"other_{name}"] = both[f"paper_{name}"] != both[moved[name]]
    others = [f"other_{name}" for name in PLACE]
    both["exact"] = ~both[others].any(axis=1)
    unprotected = [both[name] == UNPROTECTED_ETA for name in ("eta", "published_eta")]
    both["distance"] = (both["published_replaced"] - both["replaced"]).abs()
    both.loc[unprotected[0] & unprotected[1], "distance"] = 0
    near = both["distance"].notna() & both["mean"].notna() & (unprotected[0] == unprotected[1])
    order = ["cell", "exact", "other_task", "other_backbone", "distance", "line"]
    both = both[both["exact"] | near].sort_values(order, ascending=[n != "exact" for n in order])
    both = both[both["exact"] | ~both.duplicated("cell")]
    both["difference"] = (both["mean"] - both["published"]).where(both["exact"])
    left = printed[~printed["line"].isin(both.loc[both["exact"], "line"])]
    left = left.assign(**{new: left[old] for old, new in moved.items()}, replaced=None)
    found = pd.concat([both, left]).reset_index(drop=True)
    found["beyond"] = (found["metric"] == "bleu") & (found["published"] > BEST_BLEU)
    found["command"] = found["command"].where(found["mean"].isna() & (found["command"] != ""))
    found["n"] = found["n"].astype("Int64")
    found["rank"] = found.groupby(["source", "table"])["line"].transform("min")
    return found.sort_values("rank", kind="stable")[COLUMNS].reset_index(drop=True)


def by_table(results: Results) -> Iterator[tuple[str, str, list[str], pd.DataFrame]]:
    """Yield each paper's source and number of each table, its factors, and its part of `beside`."""
    for (source, table), own in joined(results).groupby(["source", "table"], sort=False):
        yield source, table, [name for name in FACTORS if own[name].any()], own


def _ours(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the numbers of the cells, and the words that T2T replaces, by our names and theirs."""
    for kind in ("train", "study", SCORE, "invert"):
        for cell in results.of(kind):
            yield from _of_cell(results, cell)
    for embedding, content in results.calibrations.items():
        for point in content["curves"]["t2t"] if content else ():
            factors = {"method": "t2t", "embedding": embedding, "eta": point["eta"]}
            share = {"mean": 100 * point["replaced"], "replaced": point["replaced"]}
            yield _named(results.params, factors | {"metric": "replaced"}, {}) | share


def _of_cell(results: Results, cell: ReadCell) -> Iterator[dict[str, Any]]:
    params, factors, doubt = results.params, cell.factors, None
    if cell.plan.kind in TUNED and not utility_table.classifies(results, cell):
        return  # its texts have scores of their own
    if cell.plan.kind in ATTACKED:
        (doubt,) = tables.doubts(results, [cell]).values()
    for name, more in _metrics(results, cell):
        found = cell.metric(name)
        numbers = {
            "replaced": results.replaced(factors),
            "mean": 100 * found.mean if found else None,
            "sd": 100 * found.sd if found and found.sd is not None else None,
            "n": found.n if found else None,
            "remark": doubt if found else None,
            "command": cell.plan.command,
        }
        other = {"method": "t2t"} if factors["method"] == CLEAN else {}
        yield _named(params, factors | more, other) | numbers
        for study in STUDIES if "tuner" in factors else ():
            if varied := setting(study, params, factors):
                own = factors | more | {"study": study, "setting": varied}
                theirs = {"method": "rapt"}  # whose parts the studies vary
                yield _named(params, own, theirs) | numbers


def _metrics(results: Results, cell: ReadCell) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the metrics of a cell that the papers print, and the factors of each."""
    if cell.plan.kind == SCORE:
        for group in GROUPS:
            yield "bleu" if group == ALL else f"{OF}{group}", {"metric": "bleu", "group": group}
        return
    yield "accuracy", {"metric": "recovered" if cell.plan.kind == "invert" else "accuracy"}
    if cell.metric("exact_match"):
        yield "exact_match", {"metric": "exact match"}


def _named(params: Params, factors: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return the factors by our names and, with `theirs` over them, by the papers'."""
    named = {name: paper_name(params, name, value) for name, value in factors.items()}
    named |= theirs
    return {name: factors.get(name, "") for name in FACTORS} | {
        f"paper_{name}": named.get(name, "") for name in FACTORS
    }


def paper_name(params: Params, factor: str, value: str) -> str:
    """Return the papers' name of a factor's value in params.yaml; its own if they have none."""
    match factor:
        case "attack":
            return params.attacks[value].type
        case "backbone" if params.backbones[value].encoder:
            return "bilstm"
        case "backbone" | "embedding":
            model = getattr(params, f"{factor}s")[value].model
            value = model.partition("@")[0].rpartition("/")[-1].lower()
        case "metric" if value == "exact match":
            return "accuracy"  # below chance in print, so written answers must count as wrong
        case "tuner":
            tuner = params.tuners[value]
            quantized = tuner.type == "lora" and tuner.quantize
            return "qlora" if quantized else tuner.type.removesuffix("-tuning")
    return NAMES.get(value, value)


def setting(study: str, params: Params, factors: Mapping[str, str]) -> str | None:
    """Return a cell's value of what a study varies; None: the cell is not part of it."""
    method, tuner = params.method(factors["method"]), params.tuners[factors["tuner"]]
    variant, plain = _variant(method), method.plain_tokens
    match study:
        case "embedding" if variant == "rapt":
            return paper_name(params, "embedding", factors["embedding"])
        case "prefix-length" if tuner.type == "prefix-tuning" and variant == "rapt":
            return str(tuner.tokens)
        case "choice" if plain and variant == "rapt":
            return plain.choice
        case "objective" if not plain or plain.choice == "uniform":
            return variant
        case "plain-length" if variant == "without_plain_tokens":
            return "0"
        case "plain-length" if variant == "rapt" and plain:
            return str(plain.length)
    return None


def _variant(method: Method) -> str | None:
    """Return the row of RAPT's Table VIII, a variant of RAPT, that a method is."""
    if not method.categories:
        return None
    if method.reconstruction:
        return "rapt"
    return "without_reconstruction" if method.plain_tokens else "without_plain_tokens"


def overhead(benchmarks: Json) -> list[tuple[Any, ...]]:
    """Return RAPT's Table X beside this machine: words, metric, on a Raspberry Pi 4, and ours."""
    ours = {one["name"].partition(" (")[0]: one["value"] for one in benchmarks.get("edge", ())}
    printed = read().query("study == 'edge'")
    at = [(f"{int(row.setting):,} words", row) for row in printed.itertuples()]
    both = [
        (words, row.metric, row.value, ours.get(f"{EDGE[row.metric]}, {words}"))
        for words, row in at
    ]
    privatize = [
        (words, f"rapt privatize, {unit}", None, ours.get(f"{name} of rapt privatize, {words}"))
        for words in dict.fromkeys(words for words, _ in at)
        for unit, name in (("seconds", "time"), ("MiB", "peak memory"))
    ]
    return [*both, *privatize]


def as_printed(row: Any) -> tuple[str, str, str, str]:
    """Format a row's published number, ours, seeds and difference.

    A number from another setting has a star, and a BLEU beyond every known system a dagger.
    """
    places = ".4g" if row.metric in EDGE else ".1f"

    def shown(value: float | None, sign: str = "") -> str:
        return "–" if pd.isna(value) else f"{value:{sign}{places}}".replace("-", MINUS)

    spread = "" if pd.isna(row.sd) else f"{NBSP}{PLUS_MINUS}{NBSP}{shown(row.sd)}"
    orientation = pd.notna(row.mean) and pd.isna(row.difference)
    return (
        shown(row.published) + "*" * orientation + "†" * row.beyond,
        shown(row.mean) + spread + ("" if pd.isna(row.remark) else f" ({row.remark})"),
        "–" if pd.isna(row.n) else f"{row.n:.0f}",
        shown(row.difference, "+"),
    )
