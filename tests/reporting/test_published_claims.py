"""The cells that each claim compares."""

from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.grid import is_unprotected, plan
from rapt.reporting.published_claims import LEVELS, statements
from tests.reporting import synthetic
from tests.reporting.planted import EVERY_SECTION, by_eta, of, write


def test_each_statement_names_levels_that_exist() -> None:
    named = {claim.levels for claim in statements().values() if isinstance(claim.levels, str)}
    assert named == {"", *LEVELS}


def test_the_bayesian_attack_of_that_claim_is_fitted_to_the_release(folder: Path) -> None:
    content = YAML().load(EVERY_SECTION)
    public = content["attacks"]["bayes"] | {"prior": "public"}
    content["attacks"] = {"bayes-public": public} | content["attacks"]
    content["sweep"]["channel_inversions"].insert(0, "bayes-public")
    content["sweep"].update(etas=[50], tune_at=[50])
    YAML().dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.kind == "invert" and is_unprotected(cell.factors["eta"]):
            synthetic.write_cell(cell)
        elif cell.kind == "invert":
            more = {"bayes": 0.05, "bayes-public": -0.2}.get(cell.factors["attack"], 0.0)
            write(cell, 0.5 + more + np.linspace(0, 0.001, 5))
    claim = of(p, "bayes-over-nearest")
    assert (claim.verdict, claim.effect) == ("supported", pytest.approx(5))


def test_a_tuner_at_one_eta_breaks_no_claim(folder: Path) -> None:
    """And three seeds are enough for a verdict."""
    yaml = YAML()
    content = yaml.load(EVERY_SECTION)
    synthetic.tune_at_one(content)
    yaml.dump(content, Path("params.yaml"))
    p = params.load()
    for cell in plan(p):
        if cell.kind == "train":
            more = 0.05 * (cell.factors["method"] == "pct2t") + 0.1 * by_eta(cell)
            write(cell, 0.5 + more + np.linspace(0, 0.01, 3))
    rises, over = of(p, "utility-rises"), of(p, "pct2t-over-t2t")
    assert (rises.verdict, over.verdict) == ("supported", "supported")
    assert "prompt" in rises.basis and "lora" not in rises.basis
    assert "the mean over 3 settings" in over.basis
