"""Pairs of synthetic cells, with and without the scores of each text."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rapt.grid import PlannedCell, plan
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.comparisons import Pair, compare, differences, unbeaten
from rapt.reporting.rows import Row
from rapt.results import predictions, reader
from rapt.results.predictions import Successes
from tests.reporting.conftest import planned
from tests.reporting.planted import EVERY, by_method, keep, of, plant, write


def test_settings_are_pooled_within_a_seed(folder: Path) -> None:
    """The effect of a seed is the mean over the settings; a setting with one side counts not."""
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.0)
    of_eta = {"50": 0.1, "75": 0.3}
    for cell in plan(p):
        method, eta = cell.factors["method"], cell.factors["eta"]
        if cell.kind == "train" and method in ("t2t", "pct2t") and eta in of_eta:
            more = method == "pct2t"
            write(cell, [0.4 + more * of_eta[eta] + 0.01 * k for k in range(5)])
    claim = of(p, "pct2t-over-t2t")
    assert claim.effect == pytest.approx(20)
    assert "the mean over 2 settings" in claim.basis
    next(c for c in plan(p) if c.cell == "movies-minilm-lora-t2t-75").path.unlink()
    alone = of(p, "pct2t-over-t2t")
    assert alone.effect == pytest.approx(10)
    assert "the mean over 1 setting: movies · minilm · lora · η = 50" in alone.basis


def test_only_seeds_on_both_sides_are_paired(folder: Path) -> None:
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.05)
    cell = next(c for c in plan(p) if c.cell == "movies-minilm-lora-t2t-75")
    write(cell, [0.5, 0.5, 0.5])
    assert of(p, "pct2t-over-t2t").n == 3


@pytest.fixture
def sides(folder: Path) -> tuple[Params, PlannedCell, PlannedCell]:
    """Two methods at η 75 whose three seeds are right about half of 200 texts each."""
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.0)
    more, less = (planned(p, f"movies-minilm-lora-{name}-75") for name in ("pct2t", "t2t"))
    right = np.random.default_rng(0).random((2, 3, 200)) < 0.5
    for cell, own in zip((more, less), right, strict=True):
        keep(cell, own)
    return p, more, less


def pair(more: PlannedCell, less: PlannedCell) -> Pair:
    return Pair("", reader.ReadCell.read(more), reader.ReadCell.read(less))


def test_sides_are_paired_by_text_where_both_keep_the_same(
    sides: tuple[Params, PlannedCell, PlannedCell],
) -> None:
    _, more, less = sides
    compared = compare([pair(more, less)])
    assert compared and (compared.seeds, compared.texts) == (3, 200)
    own, other = (reader.ReadCell.read(side).by_seed("accuracy") for side in (more, less))
    mean = np.mean([own[seed] - other[seed] for seed in range(3)])
    assert compared.effect.mean == pytest.approx(mean)
    keep(less, np.ones((2, 200), bool))  # seeds that both have
    compared = compare([pair(more, less)])
    assert compared and (compared.seeds, compared.texts) == (2, 200)
    keep(less, np.ones((3, 200), bool), "another-")
    compared = compare([pair(more, less)])
    assert compared and (compared.seeds, compared.texts) == (3, None)
    keep(less, np.ones((3, 200), bool))
    less.predictions.unlink()
    compared = compare([pair(more, less)])
    assert compared and (compared.seeds, compared.texts) == (3, None)


def test_attacks_on_one_release_are_paired_by_text_and_one_seed_decides(folder: Path) -> None:
    """One reads a word more of every tenth text of five words; or of the first text alone."""
    p = plant(EVERY, "invert", by_method("t2t", "pct2t", "rapt"), 0.0, 1)
    cells = [planned(p, f"{name}-movies-t2t-75") for name in ("bayes", "nearest")]

    def write_texts(more: NDArray[np.bool_]) -> list[Row]:
        for cell, added in zip(cells, (more, ~more & False), strict=True):
            counts = np.stack([2 + added, np.full(200, 5)])[None].astype(np.int64)
            found = Successes([str(n) for n in range(200)], counts)
            predictions.write(cell.predictions, {"accuracy_protected": found})
        attacks = tables.by_release(tables.privacy(reader.load(p)))
        return next(own for own in attacks if (own[0].method, own[0].eta) == ("t2t", "75"))

    names = [[a.attack for a in unbeaten(write_texts(np.arange(200) % n == 0))] for n in (10, 200)]
    assert names == [["bayes"], ["nearest", "bayes"]]
    write_texts(np.arange(200) % 10 == 0)
    metric = "accuracy_protected"
    compared = compare([pair(*cells)._replace(metric=metric)])
    assert compared and (compared.seeds, compared.texts) == (1, 200)
    assert compared.effect.mean == pytest.approx(0.1 / 5)
    cells[1].predictions.unlink()
    attacks = tables.by_release(tables.privacy(reader.load(p)))
    own = next(own for own in attacks if (own[0].method, own[0].eta) == ("t2t", "75"))
    assert {"nearest", "bayes"} <= {attack.attack for attack in unbeaten(own)}


def test_sides_without_a_seed_in_common_are_not_compared(
    sides: tuple[Params, PlannedCell, PlannedCell],
) -> None:
    _, more, less = sides
    assert compare([pair(more, less)._replace(less=reader.ReadCell(less, None))]) is None
    assert compare([]) is None


def test_the_methods_differ_only_beyond_what_chance_does_to_all_rows(folder: Path) -> None:
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.0, 3)

    def row(*values: float) -> Row:
        write(planned(p, "movies-minilm-lora-pct2t-75"), values)
        found = differences(reader.load(p))
        assert len(found) == 4
        return next(r for r in found if (r.method, r.against, r.eta) == ("pct2t", "t2t", "75"))

    write(planned(p, "movies-minilm-lora-t2t-75"), [0.60, 0.62, 0.61])
    # Student's interval by hand: sd of (0.03, 0.06, 0.05), t = 4.3027 at 2 degrees of freedom.
    alone = row(0.63, 0.68, 0.66)
    assert alone.mean == pytest.approx(0.14 / 3)
    assert alone.low == pytest.approx(0.14 / 3 - 4.3027 * 0.0152753 / 3**0.5, abs=1e-5)
    assert alone.low and alone.low > 0 and alone.verdict == "undecided"  # as one of four rows
    assert row(0.65, 0.68, 0.66).verdict == "higher"
    assert row(0.55, 0.58, 0.56).verdict == "lower"


def test_two_seeds_are_too_few_without_texts(folder: Path) -> None:
    p = plant(EVERY, "train", by_method("t2t", "pct2t", "rapt"), 0.5, 2)
    found = differences(reader.load(p))
    assert found
    assert {(row.verdict, row.low, row.p) for row in found} == {("undecided", None, 1.0)}
