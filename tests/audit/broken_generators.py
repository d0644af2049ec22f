"""Generators that are broken on purpose."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from rapt.privacy import streams as generators


def entropy(monkeypatch: pytest.MonkeyPatch, source: Callable[[int], bytes]) -> None:
    """Give every generator of a release its key from this source."""
    monkeypatch.setattr(generators, "os", SimpleNamespace(urandom=source))


def few_states(states: int) -> Callable[[int], bytes]:
    return lambda n: bytes([os.urandom(1)[0] % states]) * n


def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys from a generator of the process, whose state a fork copies."""
    entropy(monkeypatch, np.random.default_rng().bytes)
