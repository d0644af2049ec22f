"""The law of the corpus, and tests by stratum: their false alarms, and their stated power."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest

from rapt.audit import FALSE_ALARM
from rapt.audit.corpus import DIMENSION, corpus
from rapt.audit.paths import ETA, t2t
from rapt.audit.strata import Law
from rapt.privacy.mechanisms.noise import spherical_noise


def noise(rng: np.random.Generator) -> np.ndarray:
    return spherical_noise(rng, len(corpus().words), DIMENSION)


def calls(law: Law, every: list[np.ndarray]) -> list[list[list[str]]]:
    """The texts that become of the noise of each call."""
    ends = np.cumsum([len(text) for text in law.corpus.texts])[:-1]
    words = np.array(law.corpus.table, dtype=object)
    return [[list(part) for part in np.split(words[law.released(one)], ends)] for one in every]


@pytest.mark.slow
def test_the_corpus_varies_in_all_that_a_fault_may_depend_on() -> None:
    strata = corpus().strata
    few = {name: codes.max() + 1 for name, codes in strata.items()}
    assert few["script"] > 10
    assert few["case"] == 5
    assert few["piece"] > 3
    assert few["every 1000 texts"] == 1000
    for codes in strata.values():
        assert len(codes) == len(corpus().words) > 40_000


@pytest.mark.slow
def test_false_alarms_by_stratum_are_as_rare_as_stated() -> None:
    """At 5 % over all tests, and of each, in 20 releases that have the law."""
    level, audits = 0.05, 20
    law = t2t()
    alarms, each = 0, Counter[str]()
    for seed in range(audits):
        rng = np.random.default_rng(seed)
        seen = [noise(rng)]
        checks = list(law.checks(calls(law, seen), seen))
        alarms += min(check.p for check in checks) < level / len(checks)
        each.update(check.what for check in checks if check.p < level)
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM
    for count in each.values():
        assert binomtest(count, audits, level, "greater").pvalue > FALSE_ALARM / len(checks)
    # Discrete tests are rarer than their level.
    assert sum(each.values()) > 0.2 * level * audits * len(checks)


@pytest.mark.slow
def test_the_stated_faults_of_a_stratum_are_caught() -> None:
    """η of the capitalised words, times the factor; and one direction, of so much variance."""
    law, level = t2t(), 1e-9
    sight = {one.stratum: one for one in law.sight(1, level)}
    rng = np.random.default_rng(0)
    for name, inside in {
        "capitalised": np.array([word[0].isupper() for word in law.corpus.words]),
        "more than 6 letters": np.array([len(word) > 6 for word in law.corpus.words]),
    }.items():
        some = noise(rng)
        some[inside] /= sight[name].eta
        checks = law.checks(calls(law, [some]), [some])
        assert min(check.p for check in checks) < level
    one = noise(rng)
    one[:, 5] *= np.sqrt(law.further_sight(1, level)["variance"])
    assert min(check.p for check in law.checks(calls(law, [one]), [one])) < level


@pytest.mark.slow
def test_the_stated_share_of_verbatim_words_shows_in_outcomes_alone() -> None:
    law, level, rng = Law(corpus(), ETA), 1e-9, np.random.default_rng(0)
    (share,) = (one.verbatim for one in law.sight(1, level) if one.stratum == "capitalised")
    assert share and share < 0.1
    (texts,) = calls(law, [noise(rng)])
    rows = iter(law.corpus.rows.tolist())
    for original, released in zip(law.corpus.texts, texts, strict=True):
        for place, word in enumerate(original):
            known = next(rows) >= 0
            if word[0].isupper() and rng.random() < share and known:
                released[place] = word.lower()
    assert min(check.p for check in law.checks([texts], ())) < level
