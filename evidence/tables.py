"""The tables of an experiment from its cells: `python -m evidence.tables sst2-minilm`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rapt import files, params
from rapt.reporting import cells, tables
from rapt.reporting.cells import Results
from rapt.reporting.papers.printed import read
from rapt.reporting.tables import Difference, Utility, denoised, differences_of

ACCURACY = ("tuner", "method", "η", "words replaced", "accuracy", "sd", "seeds")
PUBLISHED = ("tuner", "η", "pct2t − t2t", "rapt − pct2t")
DIFFERENCES = ("tuner", "η", "method", "against", "difference", "95 % interval", "seeds", "verdict")


def main(name: str) -> None:
    """Write the tables of the experiment NAME beside its cells."""
    os.chdir(Path(__file__).parent / name)
    with files.atomic("results.md") as scratch:
        scratch.write_text(page(cells.load(params.load())), encoding="utf-8")


def page(results: Results) -> str:
    """Markdown: what each cell reached, and the methods beside each other."""
    planned = tables.utility(results)
    run = [row for row in planned if row.accuracy is not None]
    return "\n".join(
        [
            "Accuracy on the test split in %, mean and sd over the seeds: "
            f"{len(run)} of the {len(planned)} cells of params.yaml, the others did not run.\n",
            *_table(ACCURACY, map(_accuracy, run)),
            "\nDifferences in points, paired by seed, with Student's 95 % interval.\n",
            *_table(DIFFERENCES, map(_difference, differences_of(results, _pairs(results)))),
            "\nWhat RAPT prints for these differences (arXiv 2305.06212v3, Table II: BERT-base, "
            "all training texts, and η over its table of words).\n",
            *_table(PUBLISHED, _published(results)),
            "",
        ]
    )


def _pairs(results: Results) -> list[tuple[str, str]]:
    """Each method against all that are listed before it."""
    methods = results.params.sweep.methods
    each = [(method, other) for n, method in enumerate(methods) for other in methods[:n]]
    return [*each, *denoised(results)]


def _published(results: Results) -> Iterator[tuple[str, ...]]:
    """For each tuner and η of the paper's, on the tasks that are tuned on here."""
    printed = {
        (row["tuner"], row["eta"], row["method"]): float(row["value"])
        for row in read("utility.csv")
        if (row["source"], row["table"], row["backbone"]) == ("rapt-v3", "II", "bert-base-uncased")
        and row["task"] in results.params.sweep.train
    }
    for tuner, eta in dict.fromkeys(key[:2] for key in printed):
        t2t, pct2t, rapt = (printed[tuner, eta, method] for method in ("t2t", "pct2t", "rapt"))
        yield tuner, eta, f"{pct2t - t2t:+.1f}", f"{rapt - pct2t:+.1f}"


def _accuracy(row: Utility) -> tuple[str, ...]:
    numbers = (row.replaced_share, row.accuracy, row.accuracy_sd)
    shown = ("" if number is None else f"{100 * number:.1f}" for number in numbers)
    return (row.tuner, row.label, row.eta, *shown, str(row.seeds))


def _difference(row: Difference) -> tuple[str, ...]:
    interval = ""
    if row.low is not None and row.high is not None:
        interval = f"{100 * row.low:+.1f} to {100 * row.high:+.1f}"
    mean = f"{100 * row.mean:+.1f}"
    named = (row.tuner, row.eta, row.method, row.against)
    return (*named, mean, interval, str(row.seeds), row.verdict)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    main(sys.argv[1])
