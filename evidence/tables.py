"""Result tables of an experiment, from its cells: `python -m evidence.tables sst2-minilm`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import nan
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean

from rapt import params
from rapt.analysis.effects import FALSE_ALARMS, jointly, over_seeds
from rapt.grid import CLEAN
from rapt.reporting import tables, utility_table
from rapt.reporting.comparisons import Comparison, Pair, compare, denoised, differences_of
from rapt.reporting.published import read
from rapt.reporting.rows import Row
from rapt.reporting.text import percent, span
from rapt.reporting.written import ALL, written
from rapt.results import table
from rapt.results.reader import ReadCell, Results
from rapt.utils import files

ACCURACY = ("task", "tuner", "method", "η", "words replaced", "accuracy", "sd", "seeds")
RECOVERED = ("task", "tuner", "method", "η", "words recovered", "by", "accuracy", "on the front")
WRITTEN = (
    *("task", "tuner", "method", "η", "BLEU", "95 % interval", "chrF++", "TER"),
    *("entities told", "seeds"),
)
ATTACKED = (
    *("attack", "task", "target", "method", "η", "accuracy", "95 % interval", "seeds", "baseline"),
    *("upper bound", "members found at 1 %", "95 % interval"),
)
PUBLISHED = ("tuner", "η", "pct2t − t2t", "rapt − pct2t")
DIFFERENCES = (
    *("task", "tuner", "η", "method", "against", "difference", "95 % interval", "seeds"),
    "verdict",
)
BACKBONES = ("method", "η", "backbone", *DIFFERENCES[4:])


def main(name: str) -> None:
    """Write the tables of the experiment NAME beside its cells."""
    folder = Path(__file__).parent / name
    with files.atomic(folder / "results.md") as scratch:
        scratch.write_text(page(folder), encoding="utf-8")


def page(folder: Path) -> str:
    """Return Markdown with each cell's accuracy and the differences between methods."""
    kept = folder / "cells.csv"
    results = table.read(params.load(folder / "params.yaml"), kept)
    if texts := [row for row in written(results) if row.bleu is not None]:
        return "\n".join(_written(texts))
    planned = utility_table.utility(results)
    run = [row for row in planned if row.accuracy is not None]
    if not run:
        return "\n".join(_attacks(results))
    missing = ", the others did not run" if len(run) < len(planned) else ""
    printed, recovered = list(_published(results)), list(_front(results, run))
    compared = differences_of(results, _pairs(results))
    by_text = all(row.texts for row in compared)
    paired = " and text, with a" if by_text else ", with Student's"
    privacy = [
        "\nAccuracy beside privacy: the words, in %, that the strongest attack on a release "
        "recovers, those included that the method leaves as they are. On the front are the cells "
        "that no other matches in both and beats in one.\n",
        *_table(RECOVERED, recovered),
    ]
    beside = [
        "\nWhat RAPT prints for these differences (arXiv 2305.06212v3, Table II: BERT-base, "
        "all training texts, and η over its table of words).\n",
        *_table(PUBLISHED, printed),
    ]
    return "\n".join(
        [
            "Accuracy on the test split in %, mean and sd over the seeds: "
            f"{len(run)} of the {len(planned)} cells of params.yaml{missing}.\n",
            *_table(ACCURACY, (_accuracy(row, results) for row in run)),
            *_nothing_sent(run),
            *_clean_again(results, kept),
            f"\nDifferences in points, paired by seed{paired} 95 % interval. A verdict holds for "
            "all rows together (Holm's correction at 5 %).\n",
            *_table(*_differences(results, compared)),
            *(privacy if recovered else []),
            *(beside if printed else []),
            "",
        ]
    )


def _written(rows: Sequence[Row]) -> Iterator[str]:
    """Yield Markdown with the scores of written texts."""
    first = rows[0]
    yield (
        "Scores of the written texts in %, with the 95 % interval of BLEU over texts. "
        f"BLEU of the source as it is: {percent(first.copied)}; of one reference against the "
        f"others: {percent(first.human)}.\n"
    )
    every = [row for row in rows if row.group == ALL]
    groups = list(dict.fromkeys(row.group for row in rows if row.group != ALL))
    scores = (tuple(_scores(row, rows, groups)) for row in every)
    yield from _table((*WRITTEN, *groups), scores)
    yield ""


def _scores(row: Row, rows: Sequence[Row], groups: Sequence[str]) -> Iterator[str]:
    yield from (row.task, row.tuner, row.method, row.eta, percent(row.bleu, row.bleu_sd))
    yield f"{percent(row.bleu_low)} to {percent(row.bleu_high)}"
    yield from map(percent, (row.chrf, row.ter, row.entity_recall))
    yield str(row.seeds)
    own = {one.group: one.bleu for one in rows if one.cell == row.cell}
    yield from (percent(own.get(group)) for group in groups)


def _attacks(results: Results) -> Iterator[str]:
    """Yield Markdown with the accuracy of each attack, where no method was tuned."""
    ran = [row for row in tables.privacy(results) if row.attack_accuracy is not None]
    yield (
        "Accuracy of the attacks in %, over the seeds, with its 95 % interval. Where the target is "
        "membership it is the area under the ROC curve. The baseline is the most frequent answer; "
        "the upper bound holds for attacks on single words.\n"
    )
    yield from _table(ATTACKED, map(_attack, ran))
    yield ""


def _attack(row: Row) -> tuple[str, ...]:
    return (
        *(row.attack, row.task, row.target, row.label, row.eta),
        *(percent(row.attack_accuracy), _interval(row, "attack_accuracy"), str(row.seeds)),
        *map(percent, (row.majority, row.accuracy_ceiling, row.tpr_at_1)),
        _interval(row, "tpr_at_1"),
    )


def _interval(row: Row, name: str) -> str:
    low, high = (getattr(row, f"{name}_{end}") for end in ("low", "high"))
    return "–" if low is None else f"{percent(low)} to {percent(high)}"


def _nothing_sent(run: Sequence[Row]) -> Iterator[str]:
    """Yield the accuracy of each task's local model."""
    known = {row.task: percent(row.local) for row in run if row.local is not None}
    if known:
        yield "\nSending nothing: " + ", ".join(f"{task} {said}" for task, said in known.items())


def _clean_again(results: Results, kept: Path) -> Iterator[str]:
    """Describe earlier clean-text cells of single methods, which are in no table."""
    ran = [cell for cell in table.read_cells(kept) if cell.cell.endswith("-inf")]
    parts, attacks = [], []
    for cell in ran:
        factors = cell.factors
        if cell.kind != "train":
            attacks.append(cell.metrics["accuracy"].mean)
            continue
        (clean,) = results.of("train", **factors | {"method": CLEAN})
        baseline = clean.by_seed("accuracy")
        own = {seed.seed: seed.metrics["accuracy"] for seed in cell.seeds}
        paired = [own[seed] - baseline[seed] for seed in sorted(own.keys() & baseline.keys())]
        low, high = over_seeds(paired).interval() or (nan, nan)
        plain = results.params.methods[factors["method"]].plain_tokens
        first = ", plain tokens first" if plain else ""
        parts.append(
            f"- {factors['tuner']} with {factors['method']}{first}: "
            f"{100 * fmean(paired):+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        )
    if ran:
        yield (
            f"\nClean text is one baseline. {len(parts)} further cells tuned on it, and "
            f"{len(attacks)} that attacked it, ran for single methods and are in no table. The "
            f"attacks found {span(attacks)} % of the words."
        )
        yield "\nAccuracy of the tuned ones against the baseline, in points, paired by seed:\n"
        yield from parts


def _pairs(results: Results) -> list[tuple[str, str]]:
    """Pair each method with all those listed before it, and the denoised ones with theirs."""
    methods = results.params.sweep.methods
    each = [(method, other) for n, method in enumerate(methods) for other in methods[:n]]
    return [*each, *denoised(results)]


def _front(results: Results, run: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each cell whose release was attacked, fewest words recovered first."""
    strongest = _strongest(results)
    points = sorted(
        (
            (strongest[_release(cell)].attack_accuracy_all_words or 0.0, cell.accuracy or 0.0, cell)
            for cell in run
            if _release(cell) in strongest
        ),
        key=itemgetter(0, 1),
    )
    for words, accuracy, cell in points:
        beaten = any(
            other.task == cell.task and w <= words and a >= accuracy and (w, a) != (words, accuracy)
            for w, a, other in points
        )
        named = (cell.task, cell.tuner, cell.label, cell.eta)
        shown = (f"{100 * words:.1f}", strongest[_release(cell)].attack, f"{100 * accuracy:.1f}")
        yield (*named, *shown, "" if beaten else "yes")


def _strongest(results: Results) -> dict[tuple[str, ...], Row]:
    """Return, for each release, the attack that recovers the most of its words."""
    attacks = [row for row in tables.privacy(results) if row.kind == "invert" and row.counts]
    ran = [row for row in attacks if row.attack_accuracy_all_words is not None]
    return {_release(row): row for row in sorted(ran, key=attrgetter("attack_accuracy_all_words"))}


def _release(row: Row) -> tuple[str, ...]:
    return (row.task, row.method, row.eta, row.embedding)


def _published(results: Results) -> Iterator[tuple[str, ...]]:
    """Yield the paper's differences by tuner and η, for the tasks that are tuned on here."""
    printed = {
        (row.tuner, row.eta, row.method): row.value
        for row in read().itertuples()
        if (row.source, row.table, row.backbone) == ("rapt-v3", "II", "bert-base-uncased")
        and "pct2t" in results.params.sweep.methods
        and row.task in results.params.sweep.train
    }
    for tuner, eta in dict.fromkeys(key[:2] for key in printed):
        t2t, pct2t, rapt = (printed[tuner, eta, method] for method in ("t2t", "pct2t", "rapt"))
        yield tuner, eta, f"{pct2t - t2t:+.1f}", f"{rapt - pct2t:+.1f}"


def _accuracy(row: Row, results: Results) -> tuple[str, ...]:
    numbers = (row.replaced_share, row.accuracy, row.accuracy_sd)
    shown = ("" if number is None else f"{100 * number:.1f}" for number in numbers)
    several = len(results.params.sweep.backbones) > 1
    tuner = f"{row.tuner} on {row.backbone}" if several else row.tuner
    return (row.task, tuner, row.label, row.eta, *shown, str(row.seeds))


def _differences(
    results: Results, compared: Sequence[Row]
) -> tuple[tuple[str, ...], Iterable[tuple[str, ...]]]:
    """Return the table of the differences between methods, or if there are several, backbones."""
    if len(results.params.sweep.backbones) == 1:
        return DIFFERENCES, map(_difference, compared)
    ran: dict[tuple[str, str], list[ReadCell]] = {}
    for cell in results.of("train"):
        if cell.content:
            ran.setdefault((cell.label, cell.factors["eta"]), []).append(cell)
    found: list[tuple[tuple[str, ...], Comparison]] = []
    for setting, cells in ran.items():
        for less, more in combinations(cells, 2):
            if own := compare([Pair("", more, less)]):
                found.append(((*setting, *(c.factors["backbone"] for c in (more, less))), own))
    joint = jointly([own.effect for _, own in found])
    return BACKBONES, (
        (
            *names,
            *_numbers(own.effect.mean, own.effect.interval()),
            str(own.seeds),
            _verdict(own, p),
        )
        for (names, own), (_, p) in zip(found, joint, strict=True)
    )


def _verdict(own: Comparison, p: float) -> str:
    if p > FALSE_ALARMS:
        return "undecided"
    return "higher" if own.effect.mean > 0 else "lower"


def _numbers(mean: float, ends: tuple[float, float] | None) -> tuple[str, str]:
    interval = f"{100 * ends[0]:+.1f} to {100 * ends[1]:+.1f}" if ends else ""
    return f"{100 * mean:+.1f}", interval


def _difference(row: Row) -> tuple[str, ...]:
    ends = None if row.low is None else (row.low, row.high)
    named = (row.task, row.tuner, row.eta, row.method, row.against)
    return (*named, *_numbers(row.mean, ends), str(row.seeds), row.verdict)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    main(sys.argv[1])
