"""Seeded releases of a tagged data set: the same seed and names give the same noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt import paths
from rapt.privacy.mechanisms import TokenRepresentation, parameters, wordwise_mechanism
from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.representer import Representer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError


def privatizer(
    embedding: str, how: Mapping[str, Any], categories: Sequence[str] | None, eta: str
) -> Privatizer:
    """Build the privatizer of a method at one η, over a table written by the `tables` stage.

    Args:
        embedding: the table's name in params.yaml.
        how: `type` and parameters of the mechanism.
        categories: the method's POS categories.
        eta: the privacy parameter as in params.yaml.
    """
    return Privatizer(
        table=EmbeddingTable(paths.table(embedding)),
        mechanism=wordwise_mechanism(**how),
        eta=float(eta),
        categories=categories,
    )


def texts(
    privatizer: Privatizer, tagged: pa.Table, *names: str | int, seed: int
) -> Iterator[list[str]]:
    """Privatize every text of a tagged split, with a random stream by `names` and its id."""
    return privatizer.privatize(_words(privatizer, tagged, *names, seed=seed))


def releases_vectors(privatizer: Privatizer) -> bool:
    """Whether a release holds each word's noisy vector besides the word nearest to it."""
    return isinstance(privatizer.mechanism, TokenRepresentation)


def representer(privatizer: Privatizer) -> Representer:
    """Return the representer of the vectors to which the privatizer's words are nearest."""
    assert isinstance(privatizer.mechanism, TokenRepresentation)
    return Representer(table=privatizer.table, mechanism=privatizer.mechanism, eta=privatizer.eta)


def vectors(
    privatizer: Privatizer, tagged: pa.Table, *names: str | int, seed: int
) -> Iterator[NDArray[np.float32]]:
    """Yield the noisy vectors of every text, float32 (n, d); the words of `texts` are nearest.

    Raises:
        RaptError: float32 cannot represent a number of the grid exactly.
    """
    made = representer(privatizer)
    for exact in made.release(_words(privatizer, tagged, *names, seed=seed)):
        single = exact.astype(np.float32)
        if not (single == exact).all():
            raise RaptError(
                f"mechanism.grid: got {parameters(made.mechanism)['grid']} at eta "
                f"{privatizer.eta:g}, expected a larger power of two, as float32 holds no number "
                "of more than 24 bits."
            )
        yield single


def noise(
    privatizer: Privatizer, released: pa.Table, *names: str | int, seed: int
) -> Iterator[NDArray[np.float64]]:
    """Draw the noise of every released text again, float64 (n, d), given the seed and the names.

    Only for mechanisms that add their draws, divided by η, to the vectors.
    """
    columns = (released["example_id"], released["words"])
    for example, words in zip(*(column.to_pylist() for column in columns), strict=True):
        drawn = privatizer.mechanism.draw(
            stream(seed, *names, example), len(words), privatizer.table.dimension
        )
        yield drawn / privatizer.eta


def _words(
    privatizer: Privatizer, tagged: pa.Table, *names: str | int, seed: int
) -> Iterator[Words]:
    columns = (tagged["example_id"], tagged["words"], tagged["pos"])
    for example, words, pos in zip(*(column.to_pylist() for column in columns), strict=True):
        groups = privatizer.groups_of_text(pos)
        yield Words(words, groups, partial(stream, seed, *names, example))


def plain_vocabulary(privatizer: Privatizer, size: int | None) -> NDArray[np.int64]:
    """Return V_r, from which plain tokens are drawn and which the reconstruction head predicts.

    Args:
        privatizer: the privatizer whose candidates make up V_r.
        size: number of its most frequent candidates, by the table's public frequency; None: all.

    Returns:
        Table rows, ascending, int64 (|V_r|,).

    Raises:
        RaptError: there are fewer candidates.
    """
    candidates = privatizer.candidates
    if size is None:
        return candidates
    if size > len(candidates):
        raise RaptError(
            f"plain_tokens.vocabulary: got {size}, expected at most the {len(candidates)} "
            "candidates of the method, or null for all."
        )
    frequent = np.argsort(-privatizer.table.frequency[candidates], kind="stable")[:size]
    return candidates[np.sort(frequent)]


class PlainTokens:
    """The plain tokens of one run (RAPT): public words before each text, privatized with it.

    Each text is given one of the sequences, by its id alone. The choice is as public as they are.

    Attributes:
        vocabulary: V_r as table rows, int64 (|V_r|,).
        targets: indices into V_r, int64 (sequences, length).
        words: the words of each sequence.
        groups: the groups of each sequence's words.
    """

    def __init__(
        self,
        privatizer: Privatizer,
        *names: str | int,
        seed: int,
        length: int,
        sequences: int,
        choice: str,
        vocabulary: int | None,
    ) -> None:
        """Draw the sequences, each word independently.

        Args:
            privatizer: the texts' privatizer.
            names: the run's names, for its random stream.
            seed: the experiment's seed.
            length: words in a sequence.
            sequences: number of sequences.
            choice: uniform over V_r, or by the frequency of its words.
            vocabulary: size of V_r; None: all candidates.

        Raises:
            RaptError: V_r would be larger than the candidates, or has no frequencies.
        """
        self.privatizer = privatizer
        self.vocabulary = plain_vocabulary(privatizer, vocabulary)
        self._stream = partial(stream, seed, *names)
        self.targets = self._draw(choice, (sequences, length))
        rows = self.vocabulary[self.targets]
        self.words = [[privatizer.table.words[row] for row in sequence] for sequence in rows]
        self.groups = [privatizer.groups_of_rows(sequence) for sequence in rows]

    def _draw(self, choice: str, shape: tuple[int, int]) -> NDArray[np.int64]:
        rng = self._stream("plain-tokens")
        if choice == "uniform":
            return rng.integers(len(self.vocabulary), size=shape)
        frequency = self.privatizer.table.frequency[self.vocabulary]
        if not frequency.any():
            raise RaptError(
                "plain_tokens.choice: got 'frequency', expected uniform, as the table knows no "
                "frequency of these words."
            )
        return rng.choice(len(self.vocabulary), shape, p=frequency / frequency.sum())

    def sequences(self, ids: Iterable[str], *names: str | int) -> list[int]:
        """Draw each text's sequence, uniformly, by the names of its data set and its id."""
        count = len(self.targets)
        return [
            int(self._stream(*names, example, "plain-sequence").integers(count)) for example in ids
        ]

    def copies(self, ids: Sequence[str], *names: str | int) -> Iterator[list[str]]:
        """Privatize each text's sequence anew: the sequence is public, the copy is not."""
        return self.privatizer.privatize(
            Words(
                self.words[sequence],
                self.groups[sequence],
                partial(self._stream, *names, example, "plain"),
            )
            for example, sequence in zip(ids, self.sequences(ids, *names), strict=True)
        )
