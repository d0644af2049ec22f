"""What a differentially private training spends, by the accountants of dp-accounting.

The training is DP-SGD's: each of its steps draws every text with equal probability (Poisson
sampling), and releases the sum of clipped gradients with Gaussian noise. Datasets are neighbours if
one has a text, or all texts of an author, more than the other.

Or they are if one has another text in the place of one (`replaced`). Two clipped gradients may then
differ by twice the norm, and a step with noise σ and rate q is dominated by (1 − q) N(0, σ²) +
q N(1, σ²) against (1 − q) N(0, σ²) + q N(−1, σ²). docs/private-training.md has the proof.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from rapt.utils.errors import RaptError

# Below it ε is in the hundreds. Above it no model learns: an ε that needs more is refused.
LEAST_NOISE, MOST_NOISE = 0.2, 1e3
# Of Rényi divergences (Mironov, 2017), for a first bound. Those that are no whole numbers do not
# always converge.
ORDERS = (*range(2, 65), 96, 128, 256, 512, 2048, 8192, 32768)  # the last for an ε of 0.01


def spent(noise: float, rate: float, steps: int, delta: float, *, replaced: bool = False) -> float:
    """Return the ε of a training at δ, by privacy loss distributions (Koskela et al., 2020).

    Args:
        noise: standard deviation of the noise over the clipping norm.
        rate: the probability with which a step draws a text.
        steps: of the training.
        delta: δ.
        replaced: whether neighbours have another text in the place of one.
    """
    spends = _nearly_exact(replaced).compose(_event(noise, rate, steps))
    return float(spends.get_epsilon(delta))


@cache
def noise_for(
    epsilon: float, delta: float, rate: float, steps: int, *, replaced: bool = False
) -> float:
    """Return the least noise of a training that is (ε, δ)-differentially private; see `spent`.

    Raises:
        RaptError: no noise suffices with which something could be learned.
    """
    import dp_accounting as dp
    from dp_accounting import rdp

    def event(noise: float) -> Any:
        return _event(noise, rate, steps)

    def suffices(noise: float) -> bool:
        found = rdp.RdpAccountant(ORDERS).compose(event(noise)).get_epsilon(delta)
        return bool(found <= epsilon)

    accountant = partial(_nearly_exact, replaced, 1e-4 * max(1.0, epsilon))
    if replaced:
        # The other text's gradient may be 0: at least the noise of one text more or less.
        least = noise_for(epsilon, delta, rate, steps)
        if accountant().compose(event(least)).get_epsilon(delta) <= epsilon:
            return least
        law = (accountant, event, epsilon, delta, dp.LowerEndpointAndGuess(least, 2 * least))
        return float(dp.calibrate_dp_mechanism(*law, tol=1e-3 * least))
    if not suffices(MOST_NOISE):
        raise RaptError(
            f"private.epsilon: got {epsilon:g} at delta {delta:g}, which {steps} steps reach by no "
            f"noise below {MOST_NOISE:g}, expected a larger one. Raise it, or take fewer epochs."
        )
    # Rényi divergences bound the noise within milliseconds. The nearly exact accountant would need
    # gigabytes far below that bound, and a minute for a large ε on a grid as fine as for a small.
    enough = LEAST_NOISE
    if suffices(enough):
        return enough
    while not suffices(enough):
        enough *= 1.25
    try:
        while enough / 2 > LEAST_NOISE:  # for a small ε the bound is loose
            if accountant().compose(event(enough / 2)).get_epsilon(delta) > epsilon:
                break
            enough /= 2
        found = dp.calibrate_dp_mechanism(
            accountant,
            event,
            epsilon,
            delta,
            dp.ExplicitBracketInterval(enough / 2, enough),
            tol=1e-3 * enough,
        )
    except ValueError:  # its grid is too coarse where the noise is large
        return enough
    return float(found)


def _nearly_exact(replaced: bool, interval: float = 1e-4) -> Any:
    """Return an accountant of neighbours of a kind, on a grid of losses this far apart."""
    from dp_accounting import NeighboringRelation, pld  # here, as it takes a second to import

    known = NeighboringRelation
    relation = known.REPLACE_ONE if replaced else known.ADD_OR_REMOVE_ONE
    return pld.PLDAccountant(relation, value_discretization_interval=interval)


def _event(noise: float, rate: float, steps: int) -> Any:
    import dp_accounting

    step = dp_accounting.GaussianDpEvent(noise)
    if rate < 1:
        step = dp_accounting.PoissonSampledDpEvent(rate, step)
    return dp_accounting.SelfComposedDpEvent(step, steps)
