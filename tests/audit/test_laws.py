"""White-box tests have the false-alarm rate that they state, and their stated power."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from rapt.audit import FALSE_ALARM, laws, streams
from rapt.audit.cases import FEWER_WORDS, part, points
from rapt.audit.laws import forked, repeats, watched, white_box, white_box_excess
from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import T2T, Mechanism, VectorMechanism, WordMechanism, mechanism
from rapt.privacy.mechanisms.vectors import Adept
from rapt.privacy.streams import stream

TABLE = part(points(4), FEWER_WORDS)
# One for each way to draw. The noise of vickrey is that of t2t and mahalanobis: see below.
SOUND = ["vickrey", "santext", "token-representation", "adept"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_false_alarms_are_as_rare_as_stated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 5 % over all tests, and 5 % of each, in 80 audits of a sound mechanism."""
    for constant in ("TEXTS", "WHOLE_TEXTS", "FEW_TEXTS"):
        monkeypatch.setattr(laws, constant, 40)
    # Two processes would only take time.
    monkeypatch.setattr(laws, "forked", lambda function: (function(0), function(1)))
    level, audits = 0.05, 80
    alarms, each = 0, Counter[str]()
    for seed in range(audits):
        checks = list(white_box(mechanism(name), TABLE, 8.0, streams(seed)))
        alarms += min(check.p for check in checks) < level / len(checks)
        each.update(check.what for check in checks if check.p < level)
    assert binomtest(alarms, audits, level, "greater").pvalue > FALSE_ALARM
    assert len(checks) > 5
    for count in each.values():
        assert binomtest(count, audits, level, "greater").pvalue > FALSE_ALARM / len(checks)
    assert sum(each.values()) > 0.3 * level * audits * (len(checks) - 2)


def spending(factor: float) -> Mechanism:
    class Spending(T2T):
        def draw(self, rng, n, dimension):
            return super().draw(rng, n, dimension) / factor

    return Spending()


def test_an_excess_is_detected_as_often_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "forked", lambda function: (function(0), function(1)))
    monkeypatch.setattr(laws, "TEXTS", 40)
    level, audits = 1e-8, 50
    excess = white_box_excess(T2T(), TABLE, 8.0, level)
    assert excess and 1.05 < excess < 1.15
    caught = 0
    for seed in range(audits):
        found = white_box(spending(excess), TABLE, 8.0, streams(seed))
        caught += next(found).p < level  # the first is of the size
    assert binomtest(caught, audits, 0.99, "less").pvalue > FALSE_ALARM


@pytest.mark.parametrize("dimension", [8, 384])
@pytest.mark.parametrize("name", ["t2t", "mahalanobis", "vickrey", "adept"])
def test_the_noise_that_is_seen_is_what_was_drawn(name: str, dimension: int) -> None:
    """Without the shape of a space, in units of 1/η, text by text."""
    kind, table = mechanism(name), points(dimension)
    some = [PreparedText(["w1", "w2"], [0, 0], lambda n=n: stream(0, n)) for n in range(3)]
    if not kind.releases.aligned:
        some = [PreparedText(["w1"], [0], text.stream) for text in some]
    assert isinstance(kind, WordMechanism | VectorMechanism)
    seen = watched(kind, table, 3.0, some)
    drawn = [kind.draw(text.stream(), len(text.words), dimension) for text in some]
    noise = np.array(drawn)[None, ..., :dimension]
    np.testing.assert_allclose(seen.noise, noise, rtol=1e-4, atol=1e-4 * dimension)
    if name == "vickrey":
        assert (seen.uniforms == np.array(drawn)[..., dimension:]).all()


def test_adept_clips_no_word_of_the_tables() -> None:
    for dimension in (8, 384):
        assert np.linalg.norm(points(dimension).vectors, axis=1).max() < Adept().clip


def test_repeats_are_counted_and_one_by_chance_is_none() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.random(10_000)
    assert repeats([numbers]) == 1
    assert repeats([numbers, numbers[:1]]) > 1e-9
    assert repeats([numbers, numbers[:2]]) < 1e-12
    # Of numbers that repeat by chance, the p-value is at most uniform.
    ps = [repeats([rng.integers(1 << 20, size=1000)], 2.0**-20) for _ in range(500)]
    assert kstest(ps, "uniform", alternative="greater").pvalue > FALSE_ALARM


def test_two_processes_answer_in_order() -> None:
    assert forked(lambda process: 10 + process) == (10, 11)


def test_a_process_that_dies_is_no_silence() -> None:
    with pytest.raises(EOFError):
        forked(lambda process: 1 / process)
