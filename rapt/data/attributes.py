"""Private attributes: from what a column holds to the values that an attacker is to infer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from rapt.data.config import Bins, MostFrequent
from rapt.utils.errors import RaptError

NUMBER = re.compile(r"[-+]?\d*\.?\d+")


def number(value: str | None) -> float | None:
    """The one number in what people typed ('37years', '45.0', ',30'), None of none or several."""
    found = NUMBER.findall(value or "")
    return float(found[0]) if len(found) == 1 else None


def most_frequent(values: Iterable[str | None], how: MostFrequent, key: str) -> set[str]:
    """The most frequent values, of equally frequent ones the first by their spelling.

    Blank values do not count. The key is the attribute's in params.yaml.

    Raises:
        RaptError: There are not so many different values.
    """
    counts = Counter(value for value in values if value and value.strip())
    if len(counts) < how.count:
        raise RaptError(
            f"{key}.count: got {how.count}, expected at most {len(counts)}, the different values "
            "that are left."
        )
    return set(sorted(counts, key=lambda value: (-counts[value], value))[: how.count])


def edges(numbers: Iterable[float], bins: Bins, key: str) -> list[float]:
    """The ascending edges of bins, from least to most: those given, or of equally many numbers.

    As nearly as equal numbers stay together. All numbers are within the range.

    Raises:
        RaptError: So many numbers are equal that a bin would be empty.
    """
    if bins.count is None:
        return [bins.least, *(bins.edges or []), bins.most]
    values, counts = np.unique(list(numbers), return_counts=True)
    below = counts.cumsum() - counts
    shares = counts.sum() * np.arange(bins.count) / bins.count
    first = {float(values[np.abs(below - share).argmin()]) for share in shares}
    if len(first) < bins.count:
        raise RaptError(
            f"{key}.count: got {bins.count}, expected fewer, as equal numbers stay together and "
            f"fill {len(first)} of them."
        )
    return [bins.least, *sorted(first)[1:], bins.most]


def binned(numbers: Iterable[float], edges: list[float]) -> list[str]:
    """The bin of each number, as an interval: '[25, 30)' is 25 and above, below 30."""
    ends = [np.format_float_positional(edge, trim="-") for edge in edges]
    names = [f"[{low}, {high})" for low, high in pairwise(ends)]
    names[-1] = names[-1].replace(")", "]")
    return [names[place] for place in np.digitize(list(numbers), edges[1:-1])]
