"""The tidy table of tuned cells: their accuracy, and how far it is above sending nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.break_even import break_even, learning
from rapt.analysis.effects import FALSE_ALARMS, jointly, over_texts, pooled
from rapt.analysis.intervals import of_accuracy
from rapt.baselines.combined import shares, stacked
from rapt.grid import LOCAL, PUBLIC_LABELS, TUNED, is_unprotected
from rapt.reporting.rows import Row, mean, once, parts
from rapt.results.cells import Metric, summary
from rapt.results.predictions import Predictions
from rapt.results.reader import ReadCell, Results, label

# Of a confidence interval.
ENDS = ("low", "high")
OVER_LOCAL = ("over_local_low", "over_local_high", "joint_low", "joint_high", "over_local_p")
BREAK_EVEN = ("break_even", "break_even_low", "break_even_high", "labels_from", "labels_to")
Over = NDArray[np.float64]  # (seeds, texts)
# Of a tuned cell, or of its answers combined with those of the user's own model (`with_local`). The
# accuracy is that on its own, equally privatized test split, with its 95 % confidence interval over
# texts and seeds.
UTILITY = (
    *("kind", "cell", "task", "backbone", "tuner", "method", "eta", "embedding"),
    *("study", "denoiser", "with_local", "protection"),
    # What a private training spends, on each text, author or client that it tunes on.
    *("training_epsilon", "training_delta", "training_unit"),
    *("accuracy", "accuracy_sd", "accuracy_low", "accuracy_high", "seeds", "majority"),
    # Of questions with choices: how often the likeliest token of all is the right letter, and the
    # share that is right by chance.
    *("exact_match", "chance"),
    # Of the local model, which sends nothing.
    *("local", "local_low", "local_high"),
    # How far it is above `to_beat`, text by text. The joint interval leaves out 0 where it is
    # surely above or below. The p-value of no difference is corrected for all protected rows of a
    # task, or all clean ones.
    *("over_local", *OVER_LOCAL),
    # How many labels of one's own a local model needs to be as accurate: 0 if the fewest tried
    # suffice, none if the most do not.
    *BREAK_EVEN,
    *("replaced_share", "command"),
)


@once
def utility(results: Results) -> list[Row]:
    """Return one row for each tuned cell: of the grid, denoised, of studies, of public labels.

    A row on protected words is followed by the one with the local model, where both have scored
    the same rows held out: synthetic ones are nobody's.
    """
    kinds = (*TUNED, PUBLIC_LABELS)
    cells = [cell for kind in kinds for cell in results.of(kind) if classifies(results, cell)]
    rows, families = list[Row](), defaultdict[Any, dict[int, Over]](dict)
    for at, (row, over) in enumerate(pair for cell in cells for pair in _of_cell(results, cell)):
        rows.append(row)
        if over is not None:
            families[row.task, row.unprotected][at] = over
    for family in families.values():
        for at, judged in _against_local(rows, family).items():
            verdict = "better" if rows[at].over_local > 0 else "worse"
            if judged["over_local_p"] > FALSE_ALARMS:
                verdict = "undecided"
            rows[at] = rows[at].but(**judged, against_local=verdict)
    return rows


def _against_local(rows: Sequence[Row], family: Mapping[int, Over]) -> dict[int, Any]:
    """Return intervals and corrected p-values of rows, by what each has over sending nothing.

    Their seeds are trainings of their own, so cells of a group pool the variance over seeds.
    """
    alike = defaultdict[Any, list[Over]](list)
    for at, over in family.items():
        alike[rows[at].group, rows[at].with_local].append(over)
    seeds = {of: pooled(some) for of, some in alike.items()}
    effects = {
        at: over_texts([over[None]], seeds[rows[at].group, rows[at].with_local])
        for at, over in family.items()
    }
    unknown = (None, None)
    return {
        at: dict(zip(OVER_LOCAL, (*(e.interval() or unknown), *(joint or unknown), p), strict=True))
        for (at, e), (joint, p) in zip(effects.items(), jointly([*effects.values()]), strict=True)
    }


def classifies(results: Results, cell: ReadCell) -> bool:
    """Whether a cell's model predicts classes: one that writes has no accuracy."""
    return results.params.kind(cell.factors["task"]).has_classes


def _of_cell(results: Results, cell: ReadCell) -> Iterator[tuple[Row, Over | None]]:
    """Yield the row of a tuned cell, and the one with the local model if there is one.

    Beside a row stands how much more it is right than sending nothing about each text.
    """
    accuracy, local = cell.metric("accuracy"), results.local(cell.factors["task"])
    own, alone = cell.predictions, local.predictions if local else {}
    factors, majority = cell.factors, cell.baseline("majority")
    of_local = parts("local", local.metric("accuracy") if local else None, *ENDS)
    alone_right = of_local["local"]
    training = cell.content.training if cell.content else {}
    row = Row.of(
        UTILITY,
        kind=cell.plan.kind,
        cell=cell.plan.cell,
        **factors,
        with_local=False,
        protection=cell.protection,
        training_epsilon=training.get("epsilon"),
        training_delta=training.get("delta"),
        training_unit=_unit(training) if training else None,
        **parts("accuracy", accuracy, "sd", *ENDS),
        seeds=accuracy.n if accuracy else None,
        majority=majority,
        exact_match=mean(cell.metric("exact_match")),
        chance=cell.baseline("chance"),
        **of_local,
        **_break_even(local, accuracy),
        replaced_share=results.replaced(factors),
        command=cell.plan.command,
        # Fixed while method and η vary.
        group=(factors["task"], factors["backbone"], factors["tuner"]),
        label=cell.label,
        unprotected=is_unprotected(factors["eta"]),
        on_grid=cell.plan.kind != "study",
        # The accuracy of sending nothing: the local model's, or that of the most frequent class.
        to_beat=max(alone_right, majority or 0.0) if alone_right is not None else None,
        against_local=None,
    )
    yield _set_against(row, own.get("test"), alone.get("test"))
    both_scored = {"train", "test"} <= own.keys() & alone.keys()
    both_scored = both_scored and own["test"].answers_as(alone["test"])
    if both_scored and not row.unprotected and row.on_grid and shares(own, alone):
        both = stacked(own, alone)
        low, high = of_accuracy(both.right)
        metric = Metric(**summary(both.accuracies), low=low, high=high)
        combined = row.but(
            with_local=True,
            label=label(cell.label, LOCAL),
            exact_match=None,
            **parts("accuracy", metric, "sd", *ENDS),
            **dict.fromkeys(BREAK_EVEN),
        )
        yield _set_against(combined, both, alone["test"])


def _unit(training: Mapping[str, float]) -> str:
    """Return what the ε of a training is for: it counts authors or clients where these are.

    A training with a policy promises less: it counts the words that the policy found.
    """
    unit = next((name for name in ("author", "client") if f"{name}s" in training), "text")
    return f"{unit} that differs in what the policy finds" if "words_found" in training else unit


def _break_even(local: ReadCell | None, accuracy: Metric | None) -> dict[str, float | None]:
    """Return how many labels a model is worth; None: its accuracy or a local curve is missing."""
    cell = local.content if local else None
    curve = learning(cell.metrics, cell.counts["train"]) if cell else None
    if curve is None or accuracy is None:
        return dict.fromkeys(BREAK_EVEN)
    found = [labels if isfinite(labels) else None for labels in break_even(curve, accuracy)]
    return dict(zip(BREAK_EVEN, (*found, curve.labels[0], curve.labels[-1]), strict=True))


def _set_against(
    row: Row, own: Predictions | None, local: Predictions | None
) -> tuple[Row, Over | None]:
    if own is None or local is None or len(local.examples) < 2 or not own.answers_as(local):
        return row, None
    guessed = local.labels == np.bincount(local.labels).argmax()
    reference = local.right if local.right.mean() >= local.majority else guessed
    over = own.right.astype(np.float64) - reference
    return row.but(over_local=float(over.mean())), over


def labels(rows: Sequence[Row]) -> list[str]:
    """Return the labels on the grid: methods, and methods with a denoiser, in order."""
    return list(dict.fromkeys(row.label for row in rows if row.on_grid and not row.unprotected))


def clean(rows: Sequence[Row], group: Sequence[str]) -> Row | None:
    """Return the baseline of a group, on clean text; None: it has not run."""
    own = (row for row in rows if row.group == group and row.unprotected and row.on_grid)
    return next((row for row in own if row.accuracy is not None), None)
