"""A planted leak, from the attack that finds it to what the page says of it."""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rapt.attacks.base import Release
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.upper_bound import by_channel
from rapt.grid import CLEAN, plan
from rapt.reporting.claims import claims
from rapt.reporting.narrative import headline
from rapt.results import predictions, reader
from rapt.results.predictions import Successes
from rapt.text.table import EmbeddingTable
from tests.attacks.conftest import NONE
from tests.attacks.conftest import encoder as encoder
from tests.attacks.test_reconstructor import LENGTH, attack, random_texts, uniform
from tests.reporting import synthetic


def _shortened(content: dict[str, Any]) -> None:
    attacks = {"channel_inversions": ["bayes", "trained"], "inversions": []}
    content["sweep"] |= {**attacks, "invert": ["movies"]}
    content["attacks"]["trained"] = {"type": "trained-reconstruction", "public_text": ["tweets"]}


@pytest.mark.slow
def test_a_mechanism_that_keeps_every_tenth_word_is_noticed(
    table: EmbeddingTable, encoder: Path, folder: Path
) -> None:
    """Its release pays. Word by word it looks sound; the trained attack reads what it keeps."""
    p = synthetic.write(folder, _shortened)
    synthetic.write_predictions(p, synthetic.ONE_PAYS)
    known = uniform(table, kept=10)
    assert known.privatizer
    victims = [random_texts(table, 200, 1 + k) for k in range(synthetic.SEEDS)]
    releases = [Release(list(known.privatizer.privatize(own))) for own in victims]
    bayes = Bayesian(type="bayesian", prior="public")
    words = Counter((word, 0) for text in chain(*victims) for word in text.words)
    bounds = {"accuracy_protected": by_channel(known, words)}
    fitted = {
        "bayes": bayes.fit(known, NONE, 0),
        "trained": attack(encoder, words=40_000, learning_rate=0.005).fit(known, NONE, 0),
    }
    for name, inverter in fitted.items():
        right = [
            (np.array(inverter.words([release])) == [text.words for text in own]).sum(axis=1)
            for release, own in zip(releases, victims, strict=True)
        ]
        counts = np.array([[own, np.full_like(own, LENGTH)] for own in right])
        found = Successes([str(text) for text in range(200)], counts)
        for cell in plan(p):
            if cell.factors.get("attack") == name and cell.factors["method"] != CLEAN:
                share = float(counts[:, 0].sum() / counts[:, 1].sum())
                synthetic.recover(cell, share, upper_bounds=bounds)
                predictions.write(cell.predictions, {"accuracy_protected": found})
    results = reader.load(p)
    advice = dict(headline(results))["Advice"].replace("\N{NO-BREAK SPACE}", " ")
    assert advice.startswith("A release pays: pct2t")
    assert "trained reads 1" in advice and "Do not send it before you know why" in advice
    (claim,) = (one for one in claims(results) if one.name == "context-over-words")
    assert claim.verdict == "supported"
