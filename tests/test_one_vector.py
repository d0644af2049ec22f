"""The figures of one noisy vector a text: evidence/one_vector.py, on texts of a tiny table."""

import json
from dataclasses import replace

import numpy as np
import pytest

from evidence import one_vector
from evidence.one_vector import LIFTS, Data
from rapt.privacy.mechanisms import Gaussian, Purkayastha
from rapt.text.table import EmbeddingTable
from tests.conftest import NOUNS, ROOT, VERBS


@pytest.fixture
def raw(table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch) -> Data:
    """Texts of nouns and texts of verbs, encoded by the table: easy to tell apart."""
    monkeypatch.setattr(one_vector, "MINILM", "table")
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=240)
    texts = [list(rng.choice((NOUNS, VERBS)[label], 6)) for label in labels]
    encoded = Purkayastha().read(texts, table)
    return Data(encoded[:160], labels[:160], encoded[160:], labels[160:])


def test_more_noise_costs_accuracy_and_faults_do_not(
    raw: Data, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("purkayastha", "cape-as-coded", "dpnr-as-coded", "cape")
    monkeypatch.setattr(one_vector, "SWEEP", dict.fromkeys(names, (0.01, 1e4)))
    monkeypatch.setattr(one_vector, "DIMENSIONS", (4, 8))
    for found in one_vector.cells(raw, table).values():
        for name, by_eta in found.items():
            assert by_eta["10000"] == pytest.approx(by_eta["inf"], abs=0.02)
            assert (by_eta["0.01"] < by_eta["inf"] - 0.2) == ("coded" not in name)


def test_each_lift_lifts_and_all_of_them_hide_the_noise(raw: Data, table: EmbeddingTable) -> None:
    def mean(*lifts: str) -> float:
        return float(
            np.mean(
                [
                    one_vector.with_lifts(raw, table, "gaussian", 8, 4.0, lifts, draw)
                    for draw in range(5)
                ]
            )
        )

    assert mean("half the sensitivity") > mean()
    assert mean(*LIFTS) > mean() + 0.2


def test_half_the_sensitivity_is_half_the_noise() -> None:
    made = Gaussian()
    assert made.size(one_vector._half(made, 8.0)) == pytest.approx(made.size(8.0) / 2)
    assert one_vector._half(replace(Purkayastha()), 8.0) == 16.0


def test_the_file_has_what_the_page_shows() -> None:
    """Accuracy falls with the noise, and the variants that hide nothing lose nothing."""
    content = json.loads((ROOT / "evidence/one_vector.json").read_text())
    found = content["cells"]["384"]
    left_out = [content["dropout"][mu]["1e+09"] for mu in sorted(content["dropout"])]
    assert left_out == sorted(left_out, reverse=True)
    assert left_out[0] < found["federate"]["inf"]
    for name in ("purkayastha", "vmf", "sphere-noise", "gaussian", "federate"):
        (clean, *noisy) = [found[name][eta] for eta in sorted(found[name], key=float)[::-1]]
        assert clean > noisy[0] - 0.02 and noisy[0] > noisy[-1] + 0.1
    for name in ("cape-as-coded", "dpnr-as-coded"):
        assert found[name]["0.01"] == pytest.approx(found[name]["inf"], abs=0.01)
