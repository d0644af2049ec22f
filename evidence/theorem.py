"""RAPT's Theorem VI.1 in worlds that can be counted out: `python -m evidence.theorem`.

evidence/theorem.md says what follows. Each figure is a sum over all outcomes; none is drawn.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import binom, laplace

from rapt.privacy.posterior import Posterior
from rapt.utils import files

Numbers = NDArray[np.float64]

# Five words at equal steps on a line, of falling frequency (Zipf). Neighbours differ in their
# label, as the near words `good` and `bad` do.
ETA = 2.0
PLACES = np.arange(5.0)
PRIOR = 1 / np.arange(1.0, 6.0) / (1 / np.arange(1.0, 6.0)).sum()
LABEL = np.array([0.9, 0.1, 0.9, 0.1, 0.9])  # E[y|w]
ROWS = 1000  # that a regression on the released word learns from
PLAIN = (2, 0, 3, 1, 4)  # the plain tokens that are trained on
# Errors of an earlier simulation with five words and η 2, whose world was not recorded.
EARLIER = {"bayes": 0.2179, "regression": 0.2183, "ignoring": 0.2242, "map": 0.2280}
EARLIER |= {"nearest to mean": 0.2319, "uniform prior": 0.2426}


class World(NamedTuple):
    """Words w, their releases v, and labels y that depend on v by way of w alone."""

    places: Numbers  # on a line, (W,), ascending
    channel: Numbers  # P(v|w), (W, W)
    prior: Numbers  # P(w), (W,)
    label: Numbers  # E[y|w] of a label of 0 or 1, (W,)

    @property
    def joint(self) -> Numbers:
        """P(w, v, y), (W, W, 2)."""
        labels = np.column_stack([1 - self.label, self.label])
        return self.prior[:, None, None] * self.channel[..., None] * labels[:, None]

    def posterior(self, prior: Numbers) -> Numbers:
        """P(w|v) under a prior, (W, W), a row for each v."""
        none, one = np.zeros(len(prior)), np.zeros(len(prior), np.int64)
        return Posterior(csr_array(self.channel.T), none, none, prior, one).matrix.toarray()


def t2t(places: Numbers, eta: float) -> Numbers:
    """P(v|w) of T2T on a line: noise of density ∝ exp(−η|z|), then the nearest word."""
    borders = (places[1:] + places[:-1]) / 2
    below = laplace.cdf(borders, loc=places[:, None], scale=1 / eta)
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def theorem(joint: Numbers) -> Numbers:
    """∫ E[y|w] dP(w|v) for each v, from P(w, v, y)."""
    both = joint.sum(axis=2)
    return np.asarray((joint[..., 1].sum(axis=1) / both.sum(axis=1)) @ (both / both.sum(axis=0)))


def best(joint: Numbers) -> Numbers:
    """E[y|v] for each v: no predictor from v has a smaller mean squared error."""
    return np.asarray(joint[..., 1].sum(axis=0) / joint.sum(axis=(0, 2)))


def error(joint: Numbers, answers: Numbers) -> float:
    """The mean squared error of an answer for each v."""
    squares = np.column_stack([answers**2, (1 - answers) ** 2])
    return float((joint.sum(axis=0) * squares).sum())


def regression(joint: Numbers, rows: int) -> float:
    """The expected error of each v's mean label in drawn rows, or of ½ where v has none."""
    share, answers, times = joint.sum(axis=(0, 2)), best(joint), np.arange(1, rows + 1)
    known = (binom.pmf(times, rows, share[:, None]) / times).sum(axis=1) * answers * (1 - answers)
    unknown = binom.pmf(0, rows, share) * (answers - 0.5) ** 2
    return error(joint, answers) + float(share @ (known + unknown))


def errors(world: World) -> dict[str, float]:
    """The error of each way to predict y from v."""
    posterior = world.posterior(world.prior)
    nearest = np.abs((posterior @ world.places)[:, None] - world.places).argmin(axis=1)
    answers = {
        "bayes": posterior @ world.label,
        "map": world.label[posterior.argmax(axis=1)],
        "nearest to mean": world.label[nearest],
        "uniform prior": world.posterior(np.ones_like(world.prior)) @ world.label,
        "ignoring": np.full_like(world.prior, world.prior @ world.label),
    }
    found = {name: error(world.joint, each) for name, each in answers.items()}
    return found | {"regression": regression(world.joint, ROWS)}


def arrangements(world: World) -> dict[str, Any]:
    """Of all orders of the prior, those where a way is worse than ignoring v."""
    found = [errors(world._replace(prior=np.array(each))) for each in permutations(world.prior)]
    ranked = [sorted(each, key=lambda way: round(each[way], 9)) for each in found]
    worse = {way: sum(o.index(way) > o.index("ignoring") for o in ranked) for way in EARLIER}
    return {"all": len(found), "worse": worse, "as earlier": ranked.count(list(EARLIER))}


def fair_bits() -> dict[str, Any]:
    """The label w xor z from w + z: z is independent of w and of y, but not of both."""
    bits, joint = np.zeros((2, 2, 2)), np.zeros((2, 3, 2))
    for w, z in product((0, 1), repeat=2):
        bits[w, z, w ^ z] = joint[w, w + z, w ^ z] = 1 / 4
    ways = {"theorem": theorem(joint), "best": best(joint)}
    pairs = {"w": bits.sum(axis=2), "y": bits.sum(axis=0), "both": bits}
    return {
        "independent": {of: bool((p == 1 / p.size).all()) for of, p in pairs.items()},
        "answers": {name: answers.tolist() for name, answers in ways.items()},
        "errors": {name: error(joint, answers) for name, answers in ways.items()},
    }


def plain(world: World) -> dict[str, dict[str, float]]:
    """The share of plain tokens named, and their loss, where one sequence is trained on."""
    words, at = np.arange(len(world.prior)), np.arange(len(PLAIN))
    # The posterior that fits the sequence has one word at each place: it does not read v.
    by_place = np.array([world.posterior(np.eye(len(words))[word]) for word in PLAIN])
    by_reading = np.array([world.posterior(np.ones(len(words)))] * len(at))
    others = [each for each in product(words, repeat=len(PLAIN)) if each != PLAIN]
    found = {"chance": {"others": 1 / len(words), "loss": float(np.log(len(words)))}}
    for name, answers in (("ignoring", by_place), ("posterior", by_reading)):
        right = ((answers.argmax(axis=2)[:, None] == words[:, None]) * world.channel).sum(axis=2)
        found[name] = {
            "trained": float(right[at, PLAIN].mean()),
            "others": float(np.mean([right[at, each].mean() for each in others])),
            "loss": float((world.channel[PLAIN, :] * -np.log(answers[at, :, PLAIN])).sum(1).mean()),
        }
    return found


def results() -> dict[str, Any]:
    """All figures of the page."""
    world = World(PLACES, t2t(PLACES, ETA), PRIOR, LABEL)
    found = {"fair bits": fair_bits(), "orders": arrangements(world), "plain tokens": plain(world)}
    return found | {"world": {"rows": ROWS, "errors": errors(world), "earlier": EARLIER}}


if __name__ == "__main__":
    files.write_json("evidence/theorem.json", results())
