"""Levels over the tiny table of conftest.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rapt import paths
from rapt.attacks.linked import linked
from rapt.measures import level_search, replacement
from rapt.privacy import levels
from rapt.privacy.channel import Share, estimate
from rapt.privacy.config import Calibrate
from rapt.privacy.mechanisms import parameters, word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError

SIZE = Calibrate(words=400, draws=200)
METHODS: dict[str, tuple[dict[str, object], list[str] | None]] = {
    "t2t": ({"type": "t2t"}, None),
    "nouns": ({"type": "pct2t"}, ["noun", "verb"]),
    "santext": ({"type": "santext", **parameters(word_mechanism("santext"))}, None),
}


def test_each_method_has_the_eta_that_replaces_the_share(
    table: EmbeddingTable, empty: Path
) -> None:
    """Twice 200 or more draws of each of 18 words: a standard error below 0.02 in all."""
    rows = level_search.at_levels(table, METHODS, ["replaced-50", "replaced-80"], SIZE, 0, linked)
    assert [(row["method"], row["level"]) for row in rows] == [
        (name, level) for name in METHODS for level in ("replaced-50", "replaced-80")
    ]
    laws = {row["method"]: row["guarantee"] for row in rows if row["level"] == "replaced-50"}
    eta = next(row["eta"] for row in rows if row["method"] == "nouns")
    assert laws["nouns"].startswith(f"P[M(w)=y] <= exp({eta} * d(w, w')) * P[M(w')=y]")
    assert "words w, w' of one category" in laws["nouns"] and "category" not in laws["t2t"]
    files.write_json(paths.levels("tiny"), rows)
    for how, categories in METHODS.values():
        for level, share in (("replaced-50", 0.5), ("replaced-80", 0.8)):
            eta = levels.eta_of("tiny", how, categories, level)
            at = Privatizer(
                table=table, mechanism=word_mechanism(**how), eta=eta, categories=categories
            )
            channel = estimate(at, at.candidates, 400, 1)
            weights = table.frequency[at.candidates]
            assert np.average(channel.replaced, weights=weights) == pytest.approx(share, abs=0.08)
    assert levels.eta_of("tiny", {"type": "t2t"}, None, "62.5") == 62.5
    assert level_search.at_levels(table, METHODS, [], SIZE, 0, linked) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_what_is_recovered_is_the_channel_s_bayes_vulnerability(
    table: EmbeddingTable, name: str
) -> None:
    """Σ_y max_w P(y|w)·π(w), from a channel of 1,000 draws a word; within 3 standard errors."""
    how, categories = METHODS[name]
    made = word_mechanism(**how)
    curve = replacement.text_curve(table, made, categories, words=400, draws=20, seed=0)
    found = []
    for eta in (1.0, 4.0):
        at = Privatizer(table=table, mechanism=made, eta=eta, categories=categories)
        channel = estimate(at, curve.curve.rows, 1_000, 1)
        joint = channel.matrix.toarray() * curve.weights.mean(axis=0)[:, None]
        recovered = level_search.recovered(curve, at, 0)
        reach = 1.5 * (recovered.high - recovered.low) / 2
        assert recovered.value == pytest.approx(joint.max(axis=0).sum(), abs=reach)
        assert 0 < reach < 0.2
        found.append(recovered.value)
    assert found == sorted(found)


@pytest.mark.slow
def test_a_level_of_recovery_is_the_largest_eta_whose_upper_bound_holds(
    table: EmbeddingTable,
) -> None:
    size = Calibrate(words=400, draws=50)
    of = {"t2t": METHODS["t2t"]}
    (row,) = level_search.at_levels(table, of, ["recovered-60"], size, 0, linked)
    assert row["recovered"] <= row["recovered_high"] <= 0.6
    made = word_mechanism("t2t")
    curve = replacement.text_curve(table, made, None, words=400, draws=50, seed=0)
    at = Privatizer(table=table, mechanism=made, eta=1.2 * row["eta"])
    assert level_search.recovered(curve, at, 0).high > 0.6


@pytest.mark.parametrize(("share", "eta"), [(0.05, None), (0.2, 1.1778), (0.5, 5.8779)])
def test_the_search_ends_where_the_bound_crosses_the_level(
    monkeypatch: pytest.MonkeyPatch, share: float, eta: float | None
) -> None:
    """1 − exp(−η/10) of the words stay; a tenth of the others is recovered, too."""

    def recovered(_: object, at: float, __: int) -> Share:
        high = 1 - 0.9 * np.exp(-at / 10)
        return Share(high / 2, 0.0, high)

    monkeypatch.setattr(level_search, "recovered", recovered)
    curve: Any = SimpleNamespace(largest=lambda replaced: -10 * np.log(replaced))
    found = level_search.eta_for_recovered(curve, lambda eta: eta, share, 0)
    if eta is None:
        assert found is None
    else:
        assert found is not None
        assert eta * 0.985 < found["eta"] <= eta
        assert found["recovered_high"] == 2 * found["recovered"] <= share


def test_each_level_that_a_method_cannot_reach_is_one_line(table: EmbeddingTable) -> None:
    """Over half of the words are twins of others: replaced at whatever η."""
    twins = EmbeddingTable(table.folder)
    twins.vectors = np.tile(table.vectors[:2], (9, 1))
    with pytest.raises(RaptError) as error:
        levels = ["replaced-10", "replaced-70", "replaced-20"]
        level_search.at_levels(twins, {"t2t": METHODS["t2t"]}, levels, SIZE, 0, linked)
    for line, level in zip(str(error.value).splitlines(), levels[::2], strict=True):
        expected = f"got {level} with method t2t, expected a level that an η of it gives. At "
        assert line.startswith(f"sweep.etas: {expected}")
