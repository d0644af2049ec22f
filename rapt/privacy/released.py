"""The units of a release: what stands for a text once it has left its user.

Whoever counts, states, checks, reads or attacks a release asks its unit, not what made it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rapt.utils import files

if TYPE_CHECKING:  # 33 MiB, and not all who name a unit read one
    import pyarrow as pa

    Columns = dict[str, pa.Array]

Vectors = NDArray[np.float32]
Lengths = NDArray[np.int64]  # of texts
# The word at a position of which a vector is all that is released. The vector replaces its one
# token: it is one for every tokenizer.
STAND_IN = "a"
ROUNDING = 1e-5  # of a text's vector, relative to its length
AT_EDGES, STEP = 0.01, 2.0**-9  # share of numbers that may be a step of a grid apart, and the most


class Positions(NamedTuple):
    """Texts as a model or an attacker reads them: each a row of positions.

    Attributes:
        words: at each position of each text.
        segments: the segment of each.
        vectors: float32 (positions of all texts, d), each read in the place of its word; None: the
            words are read.
    """

    words: list[list[str]]
    segments: list[list[int]]
    vectors: Vectors | None


@dataclass(frozen=True, eq=False)
class Released(ABC):
    """The release of one text.

    Attributes:
        words: at each position.
        vectors: float32 (positions, d), what is released at each; None: the words are.
        fates: what became of each word of the text (rapt.privacy.fates); None: no word has a fate.
    """

    words: list[str]
    vectors: Vectors | None = None
    fates: Sequence[str] | None = None

    # What is released of a text, in words.
    name: ClassVar[str]
    # Its own columns in a release.
    columns: ClassVar[tuple[str, ...]]
    # The columns of a value for each word that it has of the text itself, and those that it has if
    # the task releases them.
    copied: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    # The columns of which a gate requires that no value is missing, with the name of their values.
    required: ClassVar[Mapping[str, str]] = {"words": "words", "segment": "segments"}
    # Whether its words stand one for one for those of the text.
    aligned: ClassVar[bool] = False
    # Whether a position of it is known to be of this or that word of the text.
    by_word: ClassVar[bool] = False
    # Whether each word is drawn by P(y|w), a channel from words to words.
    has_channel: ClassVar[bool] = False
    # Whether it has words to read, and whether it has vectors.
    has_words: ClassVar[bool] = True
    has_vectors: ClassVar[bool] = False
    # What a statement says of it as not covered, beside the words that stay as they were.
    gaps: ClassVar[tuple[str, ...]] = ()

    def value(self, column: str) -> Any:
        """Return its value in one of its columns."""
        return getattr(self, column)

    @classmethod
    def is_equal(cls, one: Any, other: Any) -> bool:
        """Whether two values of a column are the same: lists of words, or arrays of numbers."""
        if isinstance(one, np.ndarray):
            return isinstance(other, np.ndarray) and np.array_equal(one, other)
        return bool(one == other)

    @classmethod
    @abstractmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the columns of a release.

        Args:
            texts: released ones, each taken once.
            lengths: the words of each original, int64 (n,).
            dimension: of vectors.
        """

    @classmethod
    def positions(cls, table: pa.Table) -> Positions:
        """Read the rows of a release; without segments each text is one."""
        words = table["words"].to_pylist()
        if "segment" in table.column_names:
            return Positions(words, table["segment"].to_pylist(), None)
        return Positions(words, [[0] * len(text) for text in words], None)

    @classmethod
    def values(cls, table: pa.Table) -> dict[str, list[Any]]:
        """Read each of its columns row by row; None where it is missing, or of another type."""
        return {name: _values(table, name) for name in cls.columns}


class Words(Released):
    """A word for each word."""

    name = "words"
    columns: ClassVar[tuple[str, ...]] = ("words",)
    copied, optional = ("segment",), ("space_after",)
    aligned = by_word = has_channel = True

    @classmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the column of words."""
        return {"words": strings(text.words for text in texts)}


class WordVectors(Words):
    """A vector for each word, and beside it the table's nearest word (post-processing)."""

    name = "a vector for each word"
    columns = ("words", "vectors")
    has_channel = False
    has_vectors = True

    @classmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the columns of words and vectors, these in the memory that they stay in."""
        vectors = np.empty((lengths.sum(), dimension), np.float32)
        words = []
        for end, text in zip(lengths.cumsum(), texts, strict=True):
            words.append(text.words)
            vectors[end - len(text.words) : end] = text.vectors
        return {"words": strings(words), "vectors": files.column_of_vectors(vectors, lengths)}

    @classmethod
    def positions(cls, table: pa.Table) -> Positions:
        """Read the rows of a release: a vector in the place of each word."""
        return super().positions(table)._replace(vectors=files.vectors_of_column(table["vectors"]))

    @classmethod
    def values(cls, table: pa.Table) -> dict[str, list[Any]]:
        """Read the words, and the vectors of each text, float32 (n, d)."""
        return {"words": _values(table, "words"), "vectors": _vectors(table, "vectors")}


class TextVector(Released):
    """One vector for the whole text, which takes one position of a model's input."""

    name = "one vector for each text"
    columns: ClassVar[tuple[str, ...]] = ("vector",)
    required: ClassVar[Mapping[str, str]] = {"vector": "vectors"}
    has_words = False
    has_vectors = True
    gaps: ClassVar[tuple[str, ...]] = (
        "Whether this level protects more than nothing was not measured.",
    )

    @classmethod
    def of(cls, vector: Vectors) -> Self:
        """Return the release that is a vector, (1, d), or several of them."""
        return cls([STAND_IN] * len(vector), vector)

    def value(self, column: str) -> Vectors:
        """Return the vector, (d,)."""
        assert self.vectors is not None
        return self.vectors[0]

    @classmethod
    def is_equal(cls, one: Any, other: Any) -> bool:
        """Whether two vectors are the same up to rounding: an encoder's depends on the batch.

        So a few numbers near the edge of a grid's cell may fall into the next one.
        """
        if not isinstance(other, np.ndarray) or one.shape != other.shape:
            return False
        gaps = np.abs(one - other)
        if np.linalg.norm(gaps) <= ROUNDING * np.linalg.norm(one):
            return True
        over = gaps > ROUNDING * np.abs(one).max(initial=0)
        return bool(over.mean() <= AT_EDGES and gaps.max(initial=0) <= STEP)

    @classmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the column of vectors."""
        import pyarrow as pa

        vectors = np.empty((len(lengths), dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = text.value("vector")
        return {"vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension)}

    @classmethod
    def positions(cls, table: pa.Table) -> Positions:
        """Read the rows of a release: one position each."""
        count, numbers = len(table), table["vector"].combine_chunks()
        vectors = numbers.flatten().to_numpy().reshape(count, numbers.type.list_size)
        return Positions([[STAND_IN]] * count, [[0]] * count, vectors)

    @classmethod
    def values(cls, table: pa.Table) -> dict[str, list[Any]]:
        """Read the vector of each text, float32 (d,)."""
        if not _is_of_vectors(table, "vector", lists=0):
            return {"vector": [None] * len(table)}
        return {"vector": list(cls.positions(table).vectors)}  # type: ignore[arg-type]


class HiddenStates(TextVector):
    """A vector for each token of the text, as a model has it after its first layers.

    A provider's model begins after these layers.
    """

    name = "hidden states of each text"
    by_word = True
    columns: ClassVar[tuple[str, ...]] = ("states",)
    required: ClassVar[Mapping[str, str]] = {"states": "states"}

    def value(self, column: str) -> Vectors:
        """Return the vectors, (n, d)."""
        assert self.vectors is not None
        return self.vectors

    @classmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the column of vectors."""
        every = [text.value("states") for text in texts]
        sizes = np.array([len(one) for one in every], np.int64)
        flat = np.concatenate(every) if every else np.zeros((0, dimension), np.float32)
        return {"states": files.column_of_vectors(flat, sizes)}

    @classmethod
    def positions(cls, table: pa.Table) -> Positions:
        """Read the rows of a release: a position for each vector."""
        import pyarrow.compute as pc

        sizes = pc.list_value_length(table["states"]).to_pylist()
        words = [[STAND_IN] * size for size in sizes]
        vectors = files.vectors_of_column(table["states"])
        return Positions(words, [[0] * size for size in sizes], vectors)

    @classmethod
    def values(cls, table: pa.Table) -> dict[str, list[Any]]:
        """Read the vectors of each text, float32 (n, d)."""
        return {"states": _vectors(table, "states")}


class NewText(Released):
    """Another text, of a length of its own."""

    name = "another text"
    columns = ("segment", "words")
    gaps = (
        "Words of the text may stand in the release as they were.",
        "Whether this level protects more than nothing was not measured.",
    )

    def value(self, column: str) -> Any:
        """Return the words, or their segments: it is one."""
        return self.words if column == "words" else [0] * len(self.words)

    @classmethod
    def written(cls, texts: Iterable[Self], lengths: Lengths, dimension: int) -> Columns:
        """Make the columns of the new words and of their segments."""
        import pyarrow as pa

        words = [text.words for text in texts]
        segments = pa.array([[0] * len(text) for text in words], pa.list_(pa.int8()))
        return {"segment": segments, "words": strings(words)}


# Units that are told by their columns, those with most of them first.
UNITS: tuple[type[Released], ...] = (WordVectors, HiddenStates, TextVector, Words)


def unit_of(columns: Collection[str]) -> type[Released]:
    """Return the unit of a release by its columns; another text is read as words are."""
    return next(unit for unit in UNITS if {*unit.columns} <= {*columns})


def positions(table: pa.Table) -> Positions:
    """Read the rows of a release, of whatever unit."""
    return unit_of(table.column_names).positions(table)


def others(table: pa.Table) -> Mapping[str, list[Any]]:
    """Return the columns of a release that `positions` does not read."""
    unit = unit_of(table.column_names)
    own = {*unit.columns, "segment"} & {*table.column_names}
    columns: dict[str, list[Any]] = table.drop_columns(list(own)).to_pydict()
    return columns


def strings(lists: Iterable[list[str]]) -> pa.Array:
    """Make a column of lists of strings."""
    import pyarrow as pa

    return pa.array(list(lists), pa.list_(pa.string()))


def _values(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist() if name in table.column_names else [None] * len(table)


def _vectors(table: pa.Table, name: str) -> list[Any]:
    """Read a column of several vectors for each text."""
    import pyarrow.compute as pc

    if not _is_of_vectors(table, name, lists=1):
        return [None] * len(table)
    ends = np.cumsum(pc.list_value_length(table[name]).to_numpy())[:-1]
    return list(np.split(files.vectors_of_column(table[name]), ends))


def _is_of_vectors(table: pa.Table, name: str, lists: int) -> bool:
    """Whether a column is of vectors of float32, in this many lists each, and none is missing."""
    import pyarrow as pa

    if name not in table.column_names or table[name].null_count:
        return False
    kind = table.schema.field(name).type
    for _ in range(lists):
        if not pa.types.is_list(kind):
            return False
        kind = kind.value_type
    return pa.types.is_fixed_size_list(kind) and pa.types.is_float32(kind.value_type)
