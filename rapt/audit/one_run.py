"""What one run of a training shows of its ε (Steinke et al., 2023, arXiv 2305.08846).

Of m canaries each is put among the training texts or not, by a fair coin. Whoever sees the model
guesses for some of them whether they were in it. More right guesses than ε allows refute ε.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

# Above it a bound says nothing that anybody asks for.
MOST = 50.0


def lower_bound(
    canaries: int, guesses: int, right: int, delta: float = 0.0, alpha: float = 0.05
) -> float:
    """Return an ε that the training exceeds, with confidence 1 − `alpha`; 0: nothing is shown.

    Args:
        canaries: m, which may be in the training.
        guesses: for how many of them there is a guess, chosen before it is known which are right.
        right: how many guesses are.
        delta: δ of the guarantee.
        alpha: the probability of a bound above an ε that holds.
    """

    def unlikely(epsilon: float) -> float:
        return p_value(epsilon, canaries, guesses, right, delta) - alpha

    if unlikely(0.0) > 0:
        return 0.0
    if unlikely(MOST) <= 0:
        return MOST
    return float(brentq(unlikely, 0.0, MOST, xtol=1e-6))


def p_value(epsilon: float, canaries: int, guesses: int, right: int, delta: float = 0.0) -> float:
    """Bound the probability of as many right guesses, of a training that is (ε, δ)-private."""
    one = 1 / (1 + np.exp(-epsilon))
    at_least = float(binom.sf(right - 1, guesses, one))
    if not delta:
        return at_least
    # With probability δ a canary may be shown whatever the noise.
    fewer = np.arange(1, right + 1)
    more = binom.sf(right - fewer - 1, guesses, one) - at_least
    return float(min(1.0, at_least + 2 * canaries * delta * (more / fewer).max(initial=0.0)))
