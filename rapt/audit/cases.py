"""Audit cases: small spaces of words, in which the losses that a mechanism allows are attained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from tokenizers import Tokenizer, models, normalizers

from rapt.privacy.mechanisms import (
    MECHANISMS,
    Mechanism,
    RewritingMechanism,
    Space,
    TextVectorMechanism,
    mechanism,
)
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

Pairs = Sequence[tuple[str, str]]

ETA = 2.0  # of the line, whose first two words are at distance 1: few draws show a loss of 2 best
DRAWS = 200_000  # of each word
LINE = 20  # words on the line
STEP = 1e-4  # between those beyond the second
CUBE, CIRCLE = 4, 24  # dimensions of a cube of words, and words on a circle
LAWS_ETA = 8.0  # over the tables for laws
DIMENSIONS = (8, 384)  # of these; MiniLM's
WORDS, FEWER_WORDS = 40, 8  # of each
# A word that no table contains, to audit unknown words.
UNKNOWN = "zxqvj"
# Parameters for spaces of few words, as the papers' suit a vocabulary.
# Of hidden states layer 0: their laws are the same after any.
PARAMETERS: dict[str, dict[str, Any]] = {
    "custext": {"size": 10},
    "rank-neighbours": {"c": 2.0},
    "split": {"layer": 0},
    "sap": {"layer": 0, "spared": 1.0},
    "privtune": {"layer": 0, "neighbours": 2, "hops": 1, "pull": 1.0},
    "dp-forward": {"layer": 0, "tokens": 1},
    # The code takes no notice of the clip: the larger it is, the more is seen.
    "dp-forward-as-coded": {"layer": 0, "tokens": 1, "clip": 4.0},
}
# The constants of one need a large η; the optimum of the other should keep not every word.
ETAS = {"truncated-gumbel": 100.0, "imola": 2.0}
SIZES = {"imola": 2}  # words on the line: with more, this optimum never releases the first


@dataclass(frozen=True)
class Case:
    """A mechanism at one η over one table, and the words to compare.

    Attributes:
        mechanism: the audited mechanism.
        eta: the privacy parameter.
        table: the embedding table.
        pairs: pairs of words, each compared in both directions; the power is that of the first.
        draws: number of draws for each word.
    """

    mechanism: Mechanism
    eta: float
    table: EmbeddingTable
    pairs: Pairs
    draws: int

    @cached_property
    def space(self) -> Space:
        """The candidates; of what encodes texts, each word as a text."""
        kind, table = self.mechanism, self.table
        if not isinstance(kind, TextVectorMechanism):
            return Space(table.vectors, table.frequency)
        encoded = kind.encode([[word] for word in table.words], table)
        return Space(encoded.astype(np.float32), table.frequency)


@dataclass(frozen=True)
class Subject:
    """A mechanism and what is audited of it.

    Attributes:
        mechanism: the mechanism.
        cases: words to compare; the power is that of the first.
        tables: over which the laws of its draws are tested; the last has the dimension
            that matters.
        laws_eta: the privacy parameter there.
    """

    mechanism: Mechanism
    cases: Sequence[Case]
    tables: Sequence[EmbeddingTable]
    laws_eta: float = LAWS_ETA


@dataclass(frozen=True)
class AuditChoice:
    """The user's options for an audit.

    Attributes:
        mechanisms: names of mechanisms; empty: all, and the ways to release texts.
        table: folder of an embedding table, in whose dimension laws are tested; None: 384.
        draws: number of draws for each word.
    """

    mechanisms: Sequence[str] = ()
    table: Path | None = None
    draws: int = DRAWS


def subjects_of(choice: AuditChoice) -> list[Subject]:
    """Return what a choice audits.

    Raises:
        RaptError: a name or a number is not allowed.
    """
    for name in choice.mechanisms:
        if name not in MECHANISMS:
            raise RaptError(not_allowed("mechanism", name, MECHANISMS))
    if choice.draws < 2:
        raise RaptError(f"draws: got {choice.draws}, expected 2 or more.")
    tables = [points(dimension) for dimension in DIMENSIONS]
    if choice.table:
        tables[-1] = part(EmbeddingTable(choice.table))
    return [
        subject(mechanism(name, **PARAMETERS.get(name, {})), tables, choice.draws)
        for name in choice.mechanisms or MECHANISMS
    ]


def subject(kind: Mechanism, tables: Sequence[EmbeddingTable], draws: int = DRAWS) -> Subject:
    """Return what is audited of a mechanism."""
    cases = COUNTEREXAMPLES.get(kind.name, _on_a_line)(kind, draws)
    if kind.name == "imola":  # a linear program of so many constraints takes minutes
        tables = [part(table, FEWER_WORDS) for table in tables]
    if isinstance(kind, RewritingMechanism):  # what it draws is its own
        tables = []
    return Subject(kind, cases, tables, ETAS.get(kind.name, LAWS_ETA))


def points(dimension: int) -> EmbeddingTable:
    """Return a table of random words."""
    vectors = np.random.Generator(np.random.PCG64(0)).standard_normal((WORDS, dimension))
    return small_table(_names(WORDS), _scaled(vectors), np.arange(1.0, WORDS + 1))


def part(table: EmbeddingTable, words: int = WORDS) -> EmbeddingTable:
    """Return the most frequent words of a table, in its own dimension."""
    rows = np.argsort(-table.frequency, kind="stable")[:words]
    vectors = _scaled(np.asarray(table.vectors[rows], np.float64))
    return small_table([table.words[row] for row in rows], vectors, table.frequency[rows])


def _scaled(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors around the origin, the longest of length 1: ADePT clips none."""
    centred = vectors - vectors.mean(axis=0)
    return 0.999 * centred / np.linalg.norm(centred, axis=1).max()


def _names(size: int) -> list[str]:
    return [f"w{number}" for number in range(size)]


def small_table(
    words: Sequence[str], vectors: NDArray[np.float64], frequency: NDArray[np.float64]
) -> EmbeddingTable:
    """Build a table of these words, all of them nouns; see `write_table`."""
    with TemporaryDirectory() as folder:
        write_table(Path(folder), words, vectors, frequency)
        table = EmbeddingTable(folder)
        table.vectors = np.array(table.vectors)  # in memory, as the files are deleted
        table.pieces = np.array(table.pieces)
    return table


def write_table(
    folder: Path,
    words: Sequence[str],
    vectors: NDArray[np.floating[Any]],
    frequency: NDArray[np.float64],
    pos: Sequence[Sequence[str]] | None = None,
) -> None:
    """Write a table of these words in the format of the `tables` stage, in lower case.

    A word that is not in it has the mean of the vectors. Without tags, all are nouns.
    """
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    columns = {
        "word": list(words),
        "pos": pos or [["NOUN"]] * len(words),
        "frequency": frequency.tolist(),
    }
    files.write_json(folder / "words.json", columns)
    np.save(folder / "vectors.npy", vectors.astype(np.float32))
    np.save(folder / "pieces.npy", vectors.mean(axis=0, keepdims=True).astype(np.float32))
    tokenizer.save(str(folder / "tokenizer.json"))


def _on_a_line(kind: Mechanism, draws: int) -> list[Case]:
    """Two words at distance 1, and many just beyond the second.

    From the second, half of the noise falls beyond it; from the first, exp(−η) times as much.

    In an exponential mechanism the first word has exp(−η/2) times the weight, seen from the second.
    The sum of all weights is almost exp(η/2) times as great. So the loss is nearly η.

    The first word is the rarest and the last the most frequent.
    """
    size = SIZES.get(kind.name, LINE)
    words = _names(size)
    places = np.concatenate([[0], 1 + STEP * np.arange(size - 1)])[:, None]
    table = small_table(words, places, np.arange(1.0, size + 1))
    further = [(words[0], UNKNOWN), (words[0], words[-1])]
    if not kind.releases.aligned:  # a text for each draw
        draws //= 10
    return [
        Case(kind, ETA, table, [(words[0], words[1])], draws),
        Case(kind, ETA, table, further, max(2, draws // 20)),
    ]


def _equidistant(kind: Mechanism, draws: int) -> list[Case]:
    """Truncated Gumbel: equidistant words, but for one pair that is a little farther apart.

    Each word of the pair is last in the other's list, which hardly ever is that long, and mostly
    stays the same. η is slightly above the least at which the published constants exist.
    """
    vectors = np.eye(12) / np.sqrt(2)
    vectors[0] += 0.001 * (vectors[0] - vectors[-1])
    eta = float(1.01 * (3 + 2 * (1 + np.log(len(vectors)))) / pdist(vectors).min())
    return _between(vectors, 0, -1, kind, eta, 4 * draws)


def _corners(kind: Mechanism, draws: int, size: float = 0.7) -> list[Case]:
    """Opposite corners of a square inside the circle to which vectors are clipped.

    Four words around the first corner divide the plane where the loss is greatest beyond it.
    """
    around = STEP * np.array([[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]])
    vectors = np.concatenate([size + around, [[-size, -size]]])
    return _between(vectors, 0, -1, kind, 1.0, draws // 4)


def _neighbours(kind: Mechanism, draws: int) -> list[Case]:
    """Words on a line: two near ones, each of which has another neighbour on its outer side."""
    return _between(np.array([[0.0], [0.3], [-1.0], [1.3]]), 0, 1, kind, ETA, draws // 4)


def _signs(kind: Mechanism, draws: int, eta: float = ETA) -> list[Case]:
    """Laplace noise and bits: two opposite corners of a cube around 0, among all its corners.

    Where the noise leaves every coordinate on the first corner's side, the loss is greatest.
    """
    corners = np.array(list(product((1, -1), repeat=CUBE)))
    # Half of its coordinates are positive: of [0, 1] it then has both ends.
    first = int(np.flatnonzero((corners == [1, 1, -1, -1]).all(axis=1))[0])
    return _between(corners / 4, first, -1 - first, kind, eta, draws // 4)


def _circle(kind: Mechanism, draws: int, eta: float = 1.0, apart: int = CIRCLE // 2) -> list[Case]:
    """Directions: two words so many steps apart on a circle, whose words divide it evenly."""
    angles = 2 * np.pi * np.arange(CIRCLE) / CIRCLE
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1)
    return _between(vectors, apart, 0, kind, eta, draws // 4)


def _between(
    vectors: NDArray[np.float64], one: int, other: int, kind: Mechanism, eta: float, draws: int
) -> list[Case]:
    """Compare two of the words that have these vectors."""
    words = _names(len(vectors))
    table = small_table(words, vectors, np.ones(len(vectors)))
    return [Case(kind, eta, table, [(words[one], words[other])], max(2, draws))]


COUNTEREXAMPLES: dict[str, Callable[[Mechanism, int], list[Case]]] = {
    "truncated-gumbel": _equidistant,
    "adept": _corners,
    "snd-as-coded": _corners,
    "vmf": _circle,
    "purkayastha": _circle,
    "sphere-noise": partial(_circle, eta=4.0, apart=CIRCLE // 6),
    "gaussian": partial(_circle, eta=50.0),
    "dp-forward": partial(_circle, eta=50.0),
    "dp-forward-as-coded": partial(_corners, size=2.8),
    "privtune": _neighbours,
    "ome": partial(_signs, eta=40.0),
    **dict.fromkeys(("cape-as-written", "dpnr-as-written"), partial(_signs, eta=0.5)),
    **dict.fromkeys(("cape", "cape-as-coded", "dpnr", "dpnr-as-coded", "ome-as-written"), _signs),
    **dict.fromkeys(("federate", "federate-as-coded"), _signs),
}
