"""The committed evidence is what its cells say, and the study of context reads as it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from evidence import tables
from evidence.in_context import WEIGHTS, in_context
from rapt import params
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior
from rapt.reporting import cells
from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT

EXPERIMENTS = [path.parent for path in sorted((ROOT / "evidence").glob("*/params.yaml"))]


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_the_tables_are_those_of_the_cells(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    written = (folder / "results.md").read_text(encoding="utf-8")
    assert tables.page(cells.load(params.load())) == written


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_every_cell_says_which_code_and_machine_made_it(folder: Path) -> None:
    made = sorted((folder / "reports/cells").rglob("*.json"))
    assert made
    for path in made:
        sidecar = folder / "runs" / path.relative_to(folder / "reports/cells")
        assert json.loads(sidecar.read_text())["commit"]


@pytest.mark.parametrize("expected", ["as rare as ever", "the first alone"])
def test_what_a_language_model_expects_weighs_the_originals(
    table: EmbeddingTable, expected: str
) -> None:
    """A word of which two may be the origin, one that is none's, and one outside the table."""
    counts = np.zeros((2, len(table.words)), np.int64)
    counts[:, :2] = [[500, 500], [400, 600]]
    groups = np.where(np.arange(len(table.words)) < 2, 0, -1)
    channel = Channel(np.arange(2), csr_array(counts))
    posterior = Posterior.of(channel, table.frequency, groups)
    chances = posterior.prior.copy() if expected == "as rare as ever" else np.eye(1, 18)[0]
    read: list[list[str]] = []

    def predictor(words: list[str]) -> list[NDArray[np.float64]]:
        read.append(list(words))
        return [chances] * len(words)

    found = in_context(posterior, table, predictor, ["nounb", "the", "unseen"])
    assert read == [["nouna", "the", "unseen"]]  # 0.5 of 2/3 and 0.6 of 1/3
    given = posterior.matrix.toarray()[1, :2]
    one, other = table.vectors[:2]
    for weight, (denoised, *others) in zip(WEIGHTS, found, strict=True):
        odds = np.array([1 + weight / 2, 1 - weight]) if expected != "as rare as ever" else 1
        q = given * odds / (given * odds).sum()
        np.testing.assert_allclose(denoised, q[0] * one + q[1] * other, rtol=1e-5)
        np.testing.assert_array_equal(others, table.embed(["the", "unseen"]))
