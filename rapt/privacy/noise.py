"""Noise with density proportional to exp(−η‖z‖)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def spherical_noise(
    rng: np.random.Generator, n: int, dimension: int, eta: float
) -> NDArray[np.float64]:
    """Draw n noise vectors, float64 (n, d), for the Euclidean metric (Feyisetan et al., 2020).

    z = l·v with l ~ Gamma(d, scale 1/η), v uniform on the unit *sphere*: a draw from the ball, as
    some papers write, would not have this density. The draws at two η differ by their scale alone.
    """
    direction = rng.standard_normal((n, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.standard_gamma(dimension, size=(n, 1)) / eta
    return radius * direction
