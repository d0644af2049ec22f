"""Searches by the first pass of a GPU, which torch computes on the CPU where there is none."""

import numpy as np
import pytest
import torch

from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.neighbours.device_pass import DevicePass
from tests.privacy.neighbours.tables import plain

CPU = torch.device("cpu")


def by_device(
    vectors: np.ndarray, queries: np.ndarray, k: int, where: torch.device = CPU
) -> np.ndarray:
    """The nearest rows, by a device pass from the first query on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactSearch, "_on_device", lambda own, _: DevicePass(own._vectors, where))
        rows = ExactSearch(vectors).nearest(queries, k)
    # A bound that is too small shows here alone: the CPU may round as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        found, decided = DevicePass(vectors, where).nearest(queries, k)
    np.testing.assert_array_equal(found[decided], plain(vectors, queries, k)[decided])
    return rows
