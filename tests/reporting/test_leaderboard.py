"""Ranks where the order is known, and the leaderboard as rows, as a file and on the page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.grid import PUBLIC_LABELS
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.comparisons import ranks
from rapt.reporting.leaderboard import LEADERBOARD, leaderboard
from rapt.results import reader
from rapt.results.reader import planned
from rapt.utils import files
from tests.every_section import add_public_labels
from tests.reporting import synthetic
from tests.reporting.conftest import page, table

RIGHT = {"local": 0.7, "t2t": 0.55, "pct2t": 0.9, "rapt": 0.89}
ETA = {"t2t": 41.5, "pct2t": 33.25, "rapt": 33.25}


def models(seed: int, *accuracies: float, texts: int = 300) -> list[np.ndarray[Any, Any]]:
    """Three seeds of each model, on texts that are hard or easy for all of them."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(0, 0.1, texts)
    return [rng.random((3, texts)) < np.clip(each + ease, 0, 1) for each in accuracies]


def test_ranks_are_exact_where_the_texts_tell_and_shared_where_they_do_not() -> None:
    assert ranks(models(0, 0.6, 0.9, 0.75)) == [(3, 3), (1, 1), (2, 2)]
    one, other, low = models(1, 0.8, 0.8, 0.5)
    assert ranks([one, low, other]) == [(1, 2), (3, 3), (1, 2)]
    assert ranks([one, one]) == [(1, 2)] * 2  # equal answers leave nothing to tell
    assert ranks([one]) == [(1, 1)]


def test_chance_turns_no_order_more_often_than_it_says() -> None:
    """Of 300 lists of five equal models at most 5 % order any two, tested at 1e-6."""
    wrong = sum(ranks(models(seed, *[0.7] * 5)) != [(1, 5)] * 5 for seed in range(300))
    assert binomtest(wrong, 300, 0.05, alternative="greater").pvalue > 1e-6


@pytest.fixture
def experiment(empty: Path) -> Params:
    """A synthetic experiment at a level and at an η, of which one task has public labels."""

    def edit(content: dict[str, Any]) -> None:
        add_public_labels(content)
        content["sweep"] |= {"etas": [75, "replaced-50"], "tune_at": [75, "replaced-50"]}

    p = synthetic.write(empty, edit)
    found = [
        {"method": name, "level": "replaced-50", "eta": eta, "metric": "Euclidean"}
        | {"guarantee": f"P[M(w)=y] <= exp({eta} * d(w, w'))", "eta_low": eta, "eta_high": eta}
        for name, eta in ETA.items()
    ]
    files.write_json("reports/levels/minilm.json", found)
    synthetic.write_predictions(p, RIGHT)
    return p


def test_each_list_is_of_one_level_with_what_stands_beside_it(experiment: Params) -> None:
    results = reader.load(experiment)
    both = leaderboard(results)
    assert {entry.level for entry in both} == {"replaced-50"}
    found, public = (
        [entry for entry in both if (entry.tuner == PUBLIC_LABELS) is is_public]
        for is_public in (False, True)
    )
    assert {entry.backbone for entry in public} == {"reviews"}
    same = ("method", "with_local", "rank_low", "rank_high", "over_local", "attack", "recovered")
    (one, *_), (other, *_) = (
        sorted([getattr(entry, name) for name in same] for entry in entries)
        for entries in (found, public)
    )
    assert one == other and len(public) == len(found)
    assert sum(entry.with_local for entry in found) == 3
    alone = {entry.method: entry for entry in found if not entry.with_local}
    accuracies = [entry.accuracy or 0 for entry in alone.values()]
    assert accuracies == sorted(accuracies, reverse=True)
    expected = {"pct2t": ("1–2", 1, 2), "rapt": ("1–2", 1, 2), "t2t": ("3", 3, 3)}
    ranks = {name: (row.rank, row.rank_low, row.rank_high) for name, row in alone.items()}
    assert ranks == expected
    assert {method: entry.eta for method, entry in alone.items()} == ETA
    last = alone["t2t"]
    assert last.guarantee == "P[M(w)=y] <= exp(41.5 * d(w, w'))"
    assert (last.against_local, alone["pct2t"].against_local) == ("worse", "better")
    own = [
        row
        for row in tables.privacy(results)
        if (row.kind, row.task, row.method, row.eta) == ("invert", "movies", "t2t", "replaced-50")
        and row.counts
    ]
    assert len(own) > 1
    strongest = max(own, key=lambda row: row.attack_accuracy or 0)
    assert (last.attack, last.recovered) == (strongest.attack, strongest.attack_accuracy)
    assert last.recovered_low is not None and last.recovered_high is not None and last.recovered
    assert last.recovered_low <= last.recovered <= last.recovered_high
    inferred = max(
        row.attack_accuracy or 0
        for row in tables.privacy(results)
        if (row.kind, row.method, row.eta) == ("infer", "t2t", "replaced-50") and row.counts
    )
    assert (last.attribute, last.inferred) == ("author of tweets", inferred)
    assert last.inferred_low is not None and last.inferred_high is not None
    assert last.inferred_low <= inferred <= last.inferred_high


def test_cells_that_did_not_run_and_a_list_of_one_have_no_rank(experiment: Params) -> None:
    for cell in planned(experiment):
        if cell.kind in ("train", PUBLIC_LABELS) and cell.factors["method"] in ("pct2t", "rapt"):
            cell.path.unlink()
    assert leaderboard(reader.load(experiment)) == []


def test_it_is_a_file_and_a_table_that_can_be_sorted(experiment: Params) -> None:
    read, own = page(experiment), table(experiment, "leaderboard")
    assert [*own[0]] == [*LEADERBOARD]
    assert len(own) == 12
    assert "pct2t + local replaced-50" in read.text
    assert "1–2" in read.text
    assert ("section", {"id": "leaderboard", "aria-labelledby": "leaderboard-title"}) in read.tags
