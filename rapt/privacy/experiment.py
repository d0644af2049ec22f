"""Seeded releases of a tagged data set: the same names give the same noise, anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt.privacy.mechanisms import word_mechanism
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable


def privatizer(
    embedding: str, how: Mapping[str, Any], categories: Sequence[str] | None, eta: str
) -> Privatizer:
    """The privatizer of a method at one η, over the table that the `tables` stage wrote.

    Args:
        embedding: its name in params.yaml.
        how: `type` and parameters of the mechanism.
        categories: of the method.
        eta: as params.yaml writes it.
    """
    return Privatizer(
        table=EmbeddingTable(f"models/tables/{embedding}"),
        mechanism=word_mechanism(**how),
        eta=float(eta),
        categories=categories,
    )


def texts(
    privatizer: Privatizer, tagged: pa.Table, *names: str | int, seed: int
) -> Iterator[list[str]]:
    """Privatize every text of a tagged split; each takes its stream from `names` and its id."""
    columns = (tagged["example_id"], tagged["words"], tagged["pos"])
    return privatizer.privatize(
        Words(words, privatizer.groups_of_text(pos), partial(stream, seed, *names, example))
        for example, words, pos in zip(*(column.to_pylist() for column in columns), strict=True)
    )


def plain_targets(
    privatizer: Privatizer, count: int, *names: str | int, seed: int
) -> NDArray[np.int64]:
    """Draw the plain tokens of one run: `count` places in V_r, uniform and independent."""
    rng = stream(seed, *names, "plain-tokens")
    return rng.integers(len(privatizer.candidates), size=count)


def plain_words(privatizer: Privatizer, targets: NDArray[np.int64]) -> list[str]:
    """The words at places in V_r."""
    return [privatizer.table.words[row] for row in privatizer.candidates[targets]]


def plain_copies(
    privatizer: Privatizer, targets: NDArray[np.int64], ids: list[str], *names: str | int, seed: int
) -> Iterator[list[str]]:
    """Privatize the plain tokens anew for each text: they are public, their copies are not."""
    groups = privatizer.groups_of_rows(privatizer.candidates[targets])
    words = plain_words(privatizer, targets)
    return privatizer.privatize(
        Words(words, groups, partial(stream, seed, *names, example, "plain")) for example in ids
    )
