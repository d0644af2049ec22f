"""Tables and figures of Qu et al. (CIKM 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rapt.grid import CLEAN, sorted_etas
from rapt.reporting import tables
from rapt.reporting.papers import setup_differences
from rapt.reporting.papers.published_values import (
    BERT,
    UNPRINTED,
    Printed,
    beside,
    own,
    read,
    tuned,
    tuner_name,
    with_preset,
)
from rapt.reporting.papers.table import PaperRow, PaperTable
from rapt.results.reader import Results

QU = "Qu et al. (CIKM 2021)"
TUNED = ("task", "backbone", "method", "eta")
METHODS = ("t2t", "token-representation")
INVERTED = ("attack", "task", "method", "eta")
NEAREST = "nearest-neighbour"
# Its BiLSTM and its attack; BERT has a preset for each task, as its learning rates differ.
PRESET = "paper-qu"
ACCURACY = "accuracy, %"


def tables_of(results: Results) -> list[PaperTable]:
    """In the paper's order, tables first."""
    return [
        _examples(results),
        _inversion(results),
        _utility(results, "4", "sst2"),
        _utility(results, "5", "qqp"),
        *(_pretraining(table) for table in ("6", "7")),
        _deniability(results),
        _geometry(results),
    ]


def _examples(results: Results) -> PaperTable:
    """Tables 1 and 2."""
    sentences = results.examples["sentences"] if results.examples else []
    rows = [
        PaperRow(
            {
                "text": sentence["text"],
                "method": release["method"],
                "eta": release["eta"],
                "released": " ".join(release["words"]),
            }
        )
        for sentence in sentences
        if sentence["source"].startswith("Qu et al.")
        for release in sorted(sentence["releases"], key=lambda release: float(release["eta"]))
        if release["method"] in METHODS
    ]
    return PaperTable(
        name="qu-tables-1-2",
        title="A sentence of the paper, perturbed at each η",
        source=f"{QU}, Tables 1 and 2",
        unit="",
        differs=setup_differences.privatized(results.params, setup_differences.QU),
        columns=("text", "method", "eta", "released"),
        rows=tuple(rows) or (PaperRow({}, command="dvc repro examples"),),
        note="The sentence is the paper's; its perturbed ones are not shipped with this project.",
    )


def _inversion(results: Results) -> PaperTable:
    """Table 3, and beside it the Bayesian attacks on one release."""
    attacks = results.params.attacks
    doubts = {row.cell: row.doubt for row in tables.privacy(results)}
    planned = [
        replace(
            found,
            printed_as={**found.printed_as, "attack": attack.type},
            remark=doubts[cell.plan.cell] if found.n else None,
        )
        for cell in results.of("invert", method="t2t")
        if (attack := attacks[cell.factors["attack"]]).type in (NEAREST, "bayesian")
        and not attack.given
        for found in [own(results, cell, "accuracy", INVERTED)]
    ]
    printed = [
        _printed({**row, "attack": NEAREST}, INVERTED, with_preset(PRESET, "invert"))
        for row in read("utility.csv")
        if row["metric"] == "inversion_accuracy"
    ]
    return PaperTable(
        name="qu-table-3",
        title="Words of T2T that the nearest neighbour recovers, and the Bayesian attack",
        source=f"{QU}, Table 3",
        unit="accuracy of the inversion, %",
        differs=setup_differences.attacked(results.params, setup_differences.QU),
        columns=INVERTED,
        rows=beside(printed, planned),
        note="The nearest neighbour takes the released word for the original, so it is right where "
        "the word was kept. The paper prints nothing of Bayesian attacks.",
    )


def _utility(results: Results, table: str, task: str) -> PaperTable:
    """Tables 4 (SST-2) and 5 (QQP); what is planned on another task stands in Table 4."""
    params = results.params

    def belongs(name: str) -> bool:
        return name == task or (table == "4" and name != "qqp")

    planned = [
        own(results, cell, "accuracy", TUNED)
        for cell in tuned(results)
        if cell.factors["method"] in (*METHODS, CLEAN)
        and tuner_name(params, cell.factors["tuner"]) == "full"
        and belongs(cell.factors["task"])
    ]
    printed = [
        _printed(
            row,
            TUNED,
            with_preset(
                f"{PRESET}-{task}" if row["backbone"] == BERT else PRESET,
                "train-clean" if row["method"] == "none" else "train",
            ),
        )
        for row in read("utility.csv")
        if (row["source"], row["table"]) == ("qu-2021", table)
    ]
    return PaperTable(
        name=f"qu-table-{table}",
        title=f"Accuracy on {task}, of released words and of released vectors",
        source=f"{QU}, Table {table}",
        unit=ACCURACY,
        differs=setup_differences.trained(params, setup_differences.QU),
        columns=TUNED,
        rows=beside(printed, planned),
    )


def _pretraining(table: str) -> PaperTable:
    """Tables 6 and 7, of which nothing can run."""
    columns = ("task", "mechanism", "pretraining", "eta")
    return PaperTable(
        name=f"qu-table-{table}",
        title="Accuracy after privacy-adaptive pretraining",
        source=f"{QU}, Table {table}",
        unit=ACCURACY,
        differs="There is nothing to compare.",
        columns=columns,
        rows=tuple(
            PaperRow({name: row[name] for name in columns}, float(row["value"]))
            for row in read("pretraining.csv")
            if row["table"] == table
        ),
        note="Not built: this project does not pretrain.",
    )


def _deniability(results: Results) -> PaperTable:
    """Figures 3 and 4: N_w and S_w."""
    found = {
        (row["embedding"], row["method"], row["eta"]): row
        for row in tables.channels(results)
        if row["choice"] == "sampled"
    }
    sweep = results.params.sweep
    rows = [
        PaperRow(
            {"embedding": embedding, "method": method, "eta": eta, "measure": measure},
            mean=found[key][column] if (key := (embedding, method, eta)) in found else None,
            command=f"dvc repro channel@{embedding}-{method}-{eta}",
        )
        for embedding in sweep.embeddings
        for method in sweep.channels
        for eta in sorted_etas(sweep.etas)
        for measure, column in (("N_w", "n_w_median"), ("S_w", "s_w_median"))
    ]
    return PaperTable(
        name="qu-figures-3-4-deniability",
        title="Plausible deniability of the median word: N_w and S_w",
        source=f"{QU}, Figures 3 and 4",
        unit="of 1,000 draws (N_w), distinct words (S_w)",
        differs=setup_differences.privatized(results.params, setup_differences.QU),
        columns=("embedding", "method", "eta", "measure"),
        rows=tuple(rows) or (PaperRow({}, command=with_preset(PRESET, "channel")),),
        note=f"S_w is over {results.params.channel.draws:,} draws of a word, 1,000 in the paper. "
        f"{UNPRINTED}",
    )


def _geometry(results: Results) -> PaperTable:
    """Figures 3 and 4: distances, and the noise that they are to be seen against."""
    rows = []
    for embedding, content in results.geometries.items():
        command = f"dvc repro calibrate@{embedding}"
        if not content:
            rows.append(PaperRow({"embedding": embedding}, command=command))
            continue
        rows += [
            PaperRow(
                {
                    "embedding": embedding,
                    "measure": "distance to the k-th nearest word",
                    "at": f"k = {found['k']}",
                },
                mean=found["mean"],
                command=command,
            )
            for found in content["neighbours"]
        ]
        rows += [
            PaperRow(
                {"embedding": embedding, "measure": "mean norm of the noise", "at": f"η = {eta}"},
                mean=content["dimension"] / float(eta),
                command=command,
            )
            for eta in sorted_etas(results.params.sweep.etas)
        ]
    return PaperTable(
        name="qu-figures-3-4-geometry",
        title="Distances between words, and the noise",
        source=f"{QU}, Figures 3 and 4",
        unit="Euclidean distance",
        differs=setup_differences.privatized(results.params, setup_differences.QU),
        columns=("embedding", "measure", "at"),
        rows=tuple(rows),
        note=f"The noise in d dimensions has the mean norm d/η. {UNPRINTED}",
    )


def _printed(row: Mapping[str, str], columns: tuple[str, ...], command: str) -> Printed:
    """A row of utility.csv, and what runs it here.

    Text that is not privatized is named as `own` names the baseline: T2T at η inf.
    """
    method = "t2t" if row["method"] == "none" else row["method"]
    return Printed(
        factors={name: {**row, "method": method}[name] for name in columns},
        value=float(row["value"]),
        embedding=BERT,
        replaced=_replaced().get(row["eta"]),
        command=command,
    )


def _replaced() -> dict[str, float]:
    """Shares of SST-2's words that are replaced: those that Table 3's inversion misses."""
    return {
        row["eta"]: 1 - float(row["value"]) / 100
        for row in read("utility.csv")
        if (row["metric"], row["task"]) == ("inversion_accuracy", "sst2")
    }
