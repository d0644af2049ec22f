"""How near synthetic texts come to the private ones: figures for the user, with no guarantee.

They are computed from the private texts themselves. Whoever publishes them publishes something of
these texts, which the ε of the synthetic ones does not cover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Texts = Sequence[Sequence[str]]  # words
ROWS = 1024  # whose distances are computed at once
RUN = 8  # words in a row that count as a copy


def judge(synthetic: Texts, train: Texts, test: Texts, encoder: str) -> dict[str, float]:
    """Compare synthetic texts with the private ones that they were made of.

    Beside each figure stands the same of the test texts, which nothing was made of.

    Args:
        synthetic: words of synthetic texts, two or more.
        train: words of the texts that they were made of.
        test: words of other real texts.
        encoder: a public encoder, named as in backbones.

    Returns:
        `copied`: share of texts with a run of words that a training text has, too; `repeated`:
        share of texts that stood before; `distance`: to the test texts, of synthetic and of
        training ones.
    """
    from rapt.privacy.mechanisms.encoders import model_encoder

    read = model_encoder(encoder, cut=True)
    of_synthetic, of_train, of_test = map(read, (synthetic, train, test))
    return {
        "copied": copied(synthetic, train),
        "copied_by_test": copied(test, train),
        "repeated": 1 - len({tuple(text) for text in synthetic}) / len(synthetic),
        "distance": distance(of_synthetic, of_test),
        "distance_of_train": distance(of_train, of_test),
    }


def copied(texts: Texts, of: Texts, run: int = RUN) -> float:
    """Return the share of texts that have `run` words in a row of one of the others.

    Words are compared in lower case. A text with fewer words has no run.
    """
    known = {words for text in of for words in _runs(text, run)}
    return sum(any(words in known for words in _runs(text, run)) for text in texts) / len(texts)


def _runs(text: Sequence[str], run: int) -> Iterator[tuple[str, ...]]:
    words = [word.lower() for word in text]
    return (tuple(words[start : start + run]) for start in range(len(words) - run + 1))


def distance(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Return the energy distance of two samples' laws (Székely and Rizzo, 2013), in expectation.

    It is 2·E‖X − Y‖ − E‖X − X'‖ − E‖Y − Y'‖ over pairs of different texts, so about 0, on either
    side of it, for samples of one law, however small they are. Fréchet's distance of normal laws
    is lower for few texts that are alike than for few real ones.

    Args:
        one: vectors (n, d), of two or more texts.
        other: vectors (m, d).
    """
    within = sum(_distances(x, x) / (len(x) * (len(x) - 1)) for x in (one, other))
    return 2 * _distances(one, other) / (len(one) * len(other)) - within


def _distances(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Return the sum of all distances, of some rows at a time: those of all take gigabytes."""
    from scipy.spatial.distance import cdist

    starts = range(0, len(one), ROWS)
    return float(sum(cdist(one[start : start + ROWS], other).sum() for start in starts))
