"""Seeded releases of a tagged data set: the same seed and names give the same noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rapt import paths
from rapt.privacy import levels
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.config import PlainTokensConfig
from rapt.privacy.fates import Counts
from rapt.privacy.labels import RandomizedLabels
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.released import Released, strings
from rapt.privacy.streams import stream
from rapt.text.mentions import NONE, SOME, WHOLE
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar

# What decides what becomes of each word of a tagged text: `Privatizer.text`.
TAGGED = ("words", "pos", "identifier")
# And of sources with texts: which words share their noise (rapt.text.mentions).
NOISE = "noise"
MENTIONS = "mentions"


def privatizer(
    embedding: str, how: Mapping[str, Any], categories: Sequence[str] | None, eta: str
) -> AnyPrivatizer[Any]:
    """Build the privatizer of a method at one η, over a table written by the `tables` stage.

    Args:
        embedding: the table's name in params.yaml.
        how: `type` and parameters of the mechanism.
        categories: the method's POS categories.
        eta: the privacy parameter, or the level, as in params.yaml.

    Raises:
        RaptError: of a level no η is known.
    """
    return mechanism(**how).privatizer(
        table=EmbeddingTable(paths.table(embedding)),
        eta=levels.eta_of(embedding, how, categories, eta),
        categories=categories,
    )


def privatizer_of(statement: Mapping[str, Any], eta: str) -> AnyPrivatizer[Any]:
    """Build the privatizer of a release anew; arguments and errors are those of `privatizer`."""
    how = {"type": statement["mechanism"], **statement["parameters"]}
    return privatizer(statement["embedding"], how, statement["categories"], eta)


def release(
    privatizer: AnyPrivatizer[Any], tagged: pa.Table, *names: str | int, seed: int
) -> Iterator[Released]:
    """Release every text of a tagged split, with a random stream by `names` and its id.

    Raises:
        RaptError: as `Privatizer.release`.
    """
    return privatizer.release(
        privatizer.text(*text, stream=partial(stream, seed, *names, example))
        for example, *text in rows_of(tagged, "example_id", *columns_for_privatizer(tagged))
    )


def rows_of(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns, row by row."""
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def columns_for_privatizer(tagged: pa.Table) -> tuple[str, ...]:
    """Return the columns of a tagged text that `Privatizer.text` takes, in order."""
    return (*TAGGED, NOISE) if NOISE in tagged.column_names else TAGGED


def prepared(privatizer: AnyPrivatizer[Any], tagged: pa.Table) -> Iterator[PreparedText]:
    """Yield texts as the privatizer prepares them, without a stream."""
    return (privatizer.text(*row) for row in rows_of(tagged, *columns_for_privatizer(tagged)))


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

    def table(self) -> pa.Table:
        """Return the sequences, a row for each word."""
        sequences, length = self.targets.shape
        return pa.table(
            {
                "sequence": np.repeat(np.arange(sequences), length),
                "word": list(chain.from_iterable(self.words)),
                "target": self.targets.ravel(),
            }
        )

    def sequences(self, ids: Iterable[str], *names: str | int) -> list[int]:
        """Draw each text's sequence, uniformly, by the names of its data set and its id."""
        count = len(self.targets)
        return [
            int(self._stream(*names, example, "plain-sequence").integers(count)) for example in ids
        ]

    def texts(self, ids: Sequence[str], *names: str | int) -> list[PreparedText]:
        """Return each text's sequence with the random stream of its copy."""
        return [
            PreparedText(
                self.words[sequence],
                self.groups[sequence],
                partial(self._stream, *names, example, "plain"),
            )
            for example, sequence in zip(ids, self.sequences(ids, *names), strict=True)
        ]

    def copies(self, ids: Sequence[str], *names: str | int) -> Iterator[list[str]]:
        """Privatize each text's sequence anew: the sequence is public, the copy is not."""
        return self.privatizer.privatize(self.texts(ids, *names))


def plain_facts(privatizer: AnyPrivatizer[Any], how: PlainTokensConfig | None) -> dict[str, Any]:
    """Return the statement's entries about plain tokens, None where there are none."""
    if how is None:
        return {"plain_tokens": None, "vocabulary": None}
    return {
        "plain_tokens": how.model_dump(exclude={"vocabulary"}),
        "vocabulary": len(plain_vocabulary(of_words(privatizer), how.vocabulary)),
    }


def _documents(tagged: pa.Table) -> list[Any]:
    """Return the document of each row: itself, or its source, which is released with each text."""
    if NOISE not in tagged.column_names:
        return tagged["example_id"].to_pylist()
    rows = rows_of(tagged, "words", "segment")
    return [
        tuple(word for word, part in zip(words, parts, strict=True) if part == 0)
        for words, parts in rows
    ]


def mentions(splits: dict[str, pa.Table]) -> dict[str, int] | None:
    """Count how the texts mention the entities of their sources; None: entities play no part."""
    every = [
        table["mentions"].to_pylist() for table in splits.values() if MENTIONS in table.schema.names
    ]
    counts = Counter(how for table in every for text in table for how in text)
    return {how: counts[how] for how in (WHOLE, SOME, NONE)} if counts else None


class SeededCopy:
    """One seed's copy of a data set, as it is released.

    Attributes:
        counts: of the words of its texts, once it is written. Plain tokens do not count: they are
            public, and no words of a text.
    """

    def __init__(
        self,
        privatizer: AnyPrivatizer[Any],
        task: str,
        seed: int,
        k: int,
        plain_tokens: PlainTokensConfig | None,
        kept_columns: Sequence[str] = ("label",),
        labels: RandomizedLabels | None = None,
    ) -> None:
        """Draw the plain tokens of this seed.

        The columns to keep are released as they are, but for labels with noise.
        """
        self.labels = labels
        self.privatizer, self.task, self.seed, self.k = privatizer, task, seed, k
        self.kept_columns = kept_columns
        self.counts = Counts()
        self._noise = Counter[Any]()  # of each document
        self.plain: PlainTokens | None = None
        if plain_tokens:
            self.plain = PlainTokens(
                of_words(privatizer), k, seed=seed, **plain_tokens.model_dump()
            )

    def write(self, splits: dict[str, pa.Table], folder: Path) -> None:
        """Write the privatized splits, and the public plain tokens where there are any."""
        for split, tagged in splits.items():
            files.write_parquet(folder / f"{split}.parquet", self._released(tagged, split))
        if self.plain:
            files.write_parquet(folder / "plain.parquet", self.plain.table())
        self.counts.most = max(self._noise.values(), default=0)

    def _released(self, tagged: pa.Table, split: str) -> pa.Table:
        """The columns that cross the boundary, and no others."""
        ids, unit = tagged["example_id"].to_pylist(), self.privatizer.releases
        if self.labels:
            tagged = self.labels.of(tagged, split, self.k, self.task)
        columns = {"example_id": tagged["example_id"]}
        kept = [name for name in unit.optional if name in self.kept_columns]
        columns |= {name: tagged[name] for name in (*unit.copied, *kept)}
        released = release(self.privatizer, tagged, self.k, self.task, seed=self.seed)
        shown = bar(released, f"{self.task} {split}, seed {self.k}", len(ids))
        lengths = pc.list_value_length(tagged["words"]).to_numpy().astype(np.int64)
        counted = self._counted(tagged, shown)
        columns |= unit.written(counted, lengths, self.privatizer.dimension)
        for name in self.kept_columns:
            if (
                name not in columns
                and name in tagged.column_names
                and tagged[name].null_count < len(ids)
            ):
                columns[name] = tagged[name]
        if self.plain:
            columns["sequence"] = pa.array(self.plain.sequences(ids, self.task), pa.int64())
            copies = self.plain.copies(ids, self.task)
            columns["plain"] = strings(bar(copies, "plain tokens", len(ids)))
        return pa.table(columns)

    def _counted(self, tagged: pa.Table, released: Iterable[Released]) -> Iterator[Released]:
        for document, text in zip(_documents(tagged), released, strict=True):
            self._noise[document] += self.counts.add_fates(text.fates)
            yield text
