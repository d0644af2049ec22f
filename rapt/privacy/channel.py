"""The channel of a mechanism: P(y|w) over its own table, estimated by Monte Carlo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from rapt.privacy.base import PreparedText
from rapt.privacy.categories import ALL, Scheme
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.progress import bar

NORMAL_95 = 1.96
PER = 1000  # draws that N_w is counted in
AT_ONCE = 1000  # draws of a word that share a stream, and are in memory together
BANDS = ("common", "middle", "rare")
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """A probability with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def mean_share(shares: NDArray[np.float64]) -> Share:
    """The mean over words, with a normal interval: words differ more than their draws do."""
    mean = float(shares.mean())
    # The standard error of the mean over words, which holds the error of their draws.
    error = float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else np.inf
    return Share(mean, max(0.0, mean - NORMAL_95 * error), min(1.0, mean + NORMAL_95 * error))


@dataclass(frozen=True, eq=False)
class Channel:
    """How often each of some words became each word of the table.

    Attributes:
        rows: int64 (n,), the words' rows in the table, ascending.
        counts: int32 (n, V), draws of each word that gave each word.
    """

    rows: Rows
    counts: csr_array

    @cached_property
    def draws(self) -> Rows:
        """Draws of each word, int64 (n,)."""
        return np.asarray(self.counts.sum(axis=1), np.int64)

    @cached_property
    def kept(self) -> Rows:
        """Draws that leave each word as it is, int64 (n,)."""
        return np.asarray(self.counts[np.arange(len(self.rows)), self.rows], np.int64)

    @property
    def replaced(self) -> NDArray[np.float64]:
        """The probability that each word becomes another, float64 (n,)."""
        return 1 - self.kept / self.draws

    @property
    def n_w(self) -> NDArray[np.float64]:
        """N_w: draws of 1,000 that leave each word as it is, float64 (n,)."""
        return PER * self.kept / self.draws

    @property
    def s_w(self) -> Rows:
        """S_w: distinct words that the draws of each word gave, int64 (n,)."""
        return np.diff(self.counts.indptr).astype(np.int64)

    @cached_property
    def matrix(self) -> csr_array:
        """P(y|w) as the draws give it, float64 (n, V); an absent entry may be up to 3/draws."""
        return csr_array(diags_array(1 / self.draws) @ self.counts)

    def extended(self, further: Channel) -> Channel:
        """The channel with further draws of the same words."""
        return Channel(self.rows, csr_array(self.counts + further.counts))

    def of(self, chosen: NDArray[np.bool_]) -> Channel:
        """The channel of some of its words, bool (n,)."""
        return Channel(self.rows[chosen], self.counts[chosen])

    def statistics(self) -> dict[str, Any]:
        """Replacement, N_w and S_w over the words, for a report (docs/data.md)."""
        replaced = mean_share(self.replaced)
        return {
            "words": len(self.rows),
            "replaced": replaced.value,
            "replaced_low": replaced.low,
            "replaced_high": replaced.high,
            "n_w": [float(q) for q in np.quantile(self.n_w, QUANTILES)],
            "s_w": [float(q) for q in np.quantile(self.s_w, QUANTILES)],
        }

    def save(self, folder: Path, choice: WordChoice | None = None) -> None:
        """Write counts.parquet and words.parquet, with what is known of the choice of words."""
        coordinates = self.counts.tocoo()
        counts = {
            "word": self.rows[coordinates.row].astype(np.int32),
            "released": coordinates.col.astype(np.int32),
            "count": coordinates.data.astype(np.int32),
        }
        files.write_parquet(folder / "counts.parquet", pa.table(counts))
        words: dict[str, Any] = {
            "row": self.rows.astype(np.int32),
            "draws": self.draws.astype(np.int32),
        }
        if choice:
            words |= {
                "stratum": choice.strata,
                "sampled": choice.sampled,
                "frequent": choice.frequent,
            }
        files.write_parquet(folder / "words.parquet", pa.table(words))

    @classmethod
    def load(cls, folder: Path, vocabulary: int) -> Channel:
        """Read what `save` wrote, over a table of `vocabulary` words."""
        rows = files.read_parquet(folder / "words.parquet")["row"].to_numpy().astype(np.int64)
        word, released, count = (
            column.to_numpy() for column in files.read_parquet(folder / "counts.parquet").columns
        )
        at = (np.searchsorted(rows, word), released)
        return cls(rows, csr_array((count, at), shape=(len(rows), vocabulary)))


def estimate(
    privatizer: Privatizer, rows: Iterable[int], draws: int | Rows, seed: int, *, after: int = 0
) -> Channel:
    """Privatize each of some words of the table again and again, one word after the other.

    A word's noise is the same at every η but for its scale, and does not depend on other words. So
    channels over η are smooth, and an estimate can be extended by further words.

    Args:
        privatizer: of the method.
        rows: of the words.
        draws: of each word, or how many of each, in the order of the rows without repetition.
        seed: of the noise.
        after: how many draws of each word there are already, to be extended by these.
    """
    table = privatizer.table
    chosen = np.unique(np.fromiter(rows, np.int64))
    row_of = {word: row for row, word in enumerate(table.words)}
    sizes = [_parts(n) for n in np.broadcast_to(draws, len(chosen)).tolist()]
    counts: list[Counter[str]] = [Counter() for _ in chosen]
    every = privatizer.privatize(_texts(privatizer, chosen, sizes, seed, len(_parts(after))))
    owners = (number for number, parts in enumerate(sizes) for _ in parts)
    for owner, words in zip(owners, bar(every, "words", sum(map(len, sizes))), strict=True):
        counts[owner].update(words)
    found = [sorted((row_of[word], n) for word, n in count.items()) for count in counts]
    released = np.array([row for word in found for row, _ in word], np.int32)
    counted = np.array([n for word in found for _, n in word], np.int32)
    ends = np.cumsum([0, *map(len, found)])
    return Channel(
        chosen, csr_array((counted, released, ends), shape=(len(chosen), len(table.words)))
    )


def noise_of(seed: int, word: str, part: int = 0) -> np.random.Generator:
    """The stream of a word's draws, wherever a mechanism is measured on its own table."""
    return stream(seed, "calibrate", word, *([part] if part else []))


def _parts(draws: int) -> list[int]:
    """Draws of a word in parts that memory holds."""
    whole, rest = divmod(draws, AT_ONCE)
    return [*repeat(AT_ONCE, whole), *([rest] if rest else [])]


def _texts(
    privatizer: Privatizer, rows: Rows, sizes: Sequence[Sequence[int]], seed: int, first: int
) -> Iterator[PreparedText]:
    words = (privatizer.table.words[row] for row in rows)
    for word, group, parts in zip(words, privatizer.groups_of_rows(rows), sizes, strict=True):
        for number, draws in enumerate(parts, start=first):
            noise = partial(noise_of, seed, word, number)
            yield PreparedText(list(repeat(word, draws)), list(repeat(group, draws)), noise)


@dataclass(frozen=True, eq=False)
class WordChoice:
    """Words to estimate a channel for.

    Attributes:
        rows: int64 (n,), ascending.
        strata: category and frequency band of each.
        sampled: bool (n,), whether it is of the sample, which stands for the whole vocabulary.
        frequent: bool (n,), whether it is one of the most frequent.
    """

    rows: Rows
    strata: list[str]
    sampled: NDArray[np.bool_]
    frequent: NDArray[np.bool_]


def choose(
    table: EmbeddingTable, candidates: Rows, frequent: int, sampled: int | None, seed: int
) -> WordChoice:
    """The most frequent candidates, and a stratified sample of all of them.

    Each candidate is equally likely to be sampled, so plain means over the sample are unbiased.
    Each stratum (category by frequency band) has its share of the sample to within one word.

    Args:
        table: the embedding table.
        candidates: rows to choose among.
        frequent: how many of the most frequent.
        sampled: size of the sample; None: every candidate.
        seed: of the sample.
    """
    strata = _strata(table, candidates)
    size = len(candidates)
    n = size if sampled is None else min(sampled, size)
    rng = stream(seed, "channel", "words")
    shuffled = rng.permutation(size)
    ordered = shuffled[np.argsort(np.array(strata)[shuffled], kind="stable")]
    picked = ordered[((rng.random() + np.arange(n)) * size / n).astype(np.int64)]
    top = np.argsort(-table.frequency[candidates], kind="stable")[:frequent]
    both = np.union1d(picked, top)
    return WordChoice(
        candidates[both],
        [strata[at] for at in both],
        np.isin(both, picked),
        np.isin(both, top),
    )


def _strata(table: EmbeddingTable, rows: Rows) -> list[str]:
    """Category and band: a third of the category's words each, by public frequency."""
    scheme = Scheme((ALL,))
    groups = np.array([scheme.group_of(table.pos[row][0]) for row in rows])
    bands = np.empty(len(rows), np.int64)
    for group in np.unique(groups):
        (own,) = np.nonzero(groups == group)
        order = own[np.argsort(-table.frequency[rows[own]], kind="stable")]
        bands[order] = len(BANDS) * np.arange(len(own)) // len(own)
    return [f"{scheme.names[g]}, {BANDS[b]}" for g, b in zip(groups, bands, strict=True)]
