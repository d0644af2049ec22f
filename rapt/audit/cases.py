"""Audit cases: small public spaces of words, in which losses are observable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from tokenizers import Tokenizer, models

from rapt.privacy.mechanisms import MECHANISMS, Mechanism, mechanism
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError, did_you_mean, not_allowed, wrong_eta

Pairs = Sequence[tuple[str, str]]

ETAS = (0.5, 2.0)
DRAWS = 10_000
DIMENSIONS = 2
WORDS = 12  # of a small space
AUDITED = 4  # words of a space of which all pairs are audited
# A word that no table contains, to audit unknown words.
UNKNOWN = "zxqvj"
BUILT_IN = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
# Parameters for spaces of few words, as the papers' suit a vocabulary.
PARAMETERS: dict[str, dict[str, Any]] = {"custext": {"size": 4}, "rank-neighbours": {"c": 0.5}}


@dataclass(frozen=True)
class Case:
    """A mechanism at one η over one table, and the inputs to compare.

    Attributes:
        mechanism: the audited mechanism.
        eta: the privacy parameter.
        table: the embedding table.
        pairs: pairs of words, each compared in both directions as texts of one word.
        together: pairs (w, w') compared as parts of longer releases: the texts w w and w w', and
            two texts each.
        draws: number of draws for each input.
    """

    mechanism: Mechanism
    eta: float
    table: EmbeddingTable
    pairs: Pairs
    together: Pairs = ()
    draws: int = DRAWS


@dataclass(frozen=True)
class Choice:
    """The user's options for an audit.

    Attributes:
        mechanisms: names of mechanisms; empty: all.
        etas: privacy parameters.
        table: folder of an embedding table; None: the built-in words.
        words: words of the space; empty: the table's most frequent ones.
        pairs: pairs of words; empty: all pairs of some words of the space and an unknown word.
        draws: number of draws for each input.
        dimensions: of the space; None: the whole table, not projected.
    """

    mechanisms: Sequence[str] = ()
    etas: Sequence[float] = ETAS
    table: Path | None = None
    words: Sequence[str] = ()
    pairs: Pairs = ()
    draws: int = DRAWS
    dimensions: int | None = DIMENSIONS


def cases_of(choice: Choice) -> list[Case]:
    """Return the cases of a choice, and those that refute its mechanisms' published claims.

    Raises:
        RaptError: a name or a number is not allowed.
    """
    for name in choice.mechanisms:
        if name not in MECHANISMS:
            raise RaptError(not_allowed("mechanism", name, MECHANISMS))
    for eta in choice.etas:
        if not 0 < eta < np.inf:
            raise RaptError(f"eta: {wrong_eta(eta)}")
    if choice.draws < 2:
        raise RaptError(f"draws: got {choice.draws}, expected 2 or more.")
    table, words = space(choice)
    some = [words[i] for i in np.unique(np.linspace(0, len(words) - 1, AUDITED).astype(int))]
    pairs = choice.pairs or list(combinations([*some, UNKNOWN], 2))
    made: list[Case] = []
    for name in choice.mechanisms or MECHANISMS:
        kind = mechanism(name, **({} if choice.dimensions is None else PARAMETERS.get(name, {})))
        made += [Case(kind, eta, table, pairs, pairs[:1], choice.draws) for eta in choice.etas]
        made += COUNTEREXAMPLES[name]() if name in COUNTEREXAMPLES else []
    return made


def space(choice: Choice) -> tuple[EmbeddingTable, list[str]]:
    """Return the table that a choice audits, and its words to choose pairs from.

    Raises:
        RaptError: a word is not in the table, or there are too few.
    """
    wanted = list(dict.fromkeys([*choice.words, *(word for pair in choice.pairs for word in pair)]))
    table = EmbeddingTable(choice.table) if choice.table else built_in()
    for word in wanted:
        if word not in table.words:
            hint = did_you_mean(get_close_matches(word, table.words, n=1))
            raise RaptError(f"words: got {word!r}, expected words of the table.{hint}")
    if not choice.words:
        often = (table.words[row] for row in np.argsort(-table.frequency, kind="stable"))
        wanted += [word for word in often if word.isalpha() and word not in wanted][:WORDS]
    if choice.dimensions is None:
        return table, wanted
    rows = [table.words.index(word) for word in wanted]
    if not 0 < choice.dimensions < len(rows):
        raise RaptError(
            f"dimensions: got {choice.dimensions}, expected 1 to {len(rows) - 1} for {len(rows)} "
            "words."
        )
    vectors = projected(np.asarray(table.vectors[rows], np.float64), choice.dimensions)
    return small_table(wanted, vectors, table.frequency[rows]), wanted


def projected(vectors: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """Project onto the first principal components (V, k), scaled to a median distance of 1.

    Draws can only show losses of a few units, while probability ratios of a real table are e^75
    and more.
    """
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    small = centred @ axes[:dimensions].T
    return small / np.median(pdist(small))


def built_in() -> EmbeddingTable:
    """Return a table of twelve words at random points of a plane."""
    vectors = np.random.Generator(np.random.PCG64(0)).standard_normal((len(BUILT_IN), 2))
    return small_table(BUILT_IN, vectors, 1 / np.arange(1, len(BUILT_IN) + 1))


def small_table(
    words: Sequence[str], vectors: NDArray[np.float64], frequency: NDArray[np.float64]
) -> EmbeddingTable:
    """Build a table of these words, all of them nouns, in the format of the `tables` stage.

    A word that is not in it has the mean of the vectors.
    """
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    columns = {
        "word": list(words),
        "pos": [["NOUN"]] * len(words),
        "frequency": frequency.tolist(),
    }
    with TemporaryDirectory() as folder:
        files.write_json(f"{folder}/words.json", columns)
        np.save(f"{folder}/vectors.npy", vectors.astype(np.float32))
        np.save(f"{folder}/pieces.npy", vectors.mean(axis=0, keepdims=True).astype(np.float32))
        tokenizer.save(f"{folder}/tokenizer.json")
        table = EmbeddingTable(folder)
        table.vectors = np.array(table.vectors)  # in memory, as the files are deleted
        table.pieces = np.array(table.pieces)
    return table


def _equidistant() -> list[Case]:
    """Truncated Gumbel: equidistant words, but for one pair that is a little farther apart.

    Each word of the pair is last in the other's list, which hardly ever is that long, and mostly
    stays the same. η is slightly above the least at which the published constants exist.
    """
    vectors = np.eye(12) / np.sqrt(2)
    vectors[0] += 0.001 * (vectors[0] - vectors[-1])
    words = [f"w{i}" for i in range(len(vectors))]
    table = small_table(words, vectors, np.ones(len(vectors)))
    eta = float(1.01 * (3 + 2 * (1 + np.log(len(vectors)))) / pdist(vectors).min())
    made, pairs = mechanism("truncated-gumbel"), [(words[0], words[-1])]
    return [Case(made, eta, table, pairs, draws=2_200_000), Case(made, eta, table, [], pairs)]


def _corners() -> list[Case]:
    """ADePT: opposite corners of a cube inside the ball to which vectors are clipped."""
    corner = np.full((1, 4), 0.5)
    words = ["one", "other"]
    table = small_table(words, np.concatenate([corner, -corner]), np.ones(2))
    return [Case(mechanism("adept"), 1.0, table, [(words[0], words[1])], draws=20_000)]


COUNTEREXAMPLES: dict[str, Callable[[], list[Case]]] = {
    "truncated-gumbel": _equidistant,
    "adept": _corners,
}
