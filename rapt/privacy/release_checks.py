"""Checks of a release against the tagged text that it was made from.

Every check returns rows with an `example_id` and flags that are True if all is well; the gate
decides which of them must hold. No row contains a word of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rapt import paths
from rapt.privacy import seeded
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import parameters
from rapt.privacy.originals import SPLITS, Originals, replaced_words
from rapt.privacy.privatizer import Privatizer, Released, Words
from rapt.privacy.replay import ReplayTest, SignTest, measures, replay_test, sign_tests
from rapt.utils import files

CHUNK = 1 << 14  # vectors that are checked at once
Rows = list[dict[str, Any]]


class Release:
    """A release of a task's two splits, and the mechanism that should have made it.

    Attributes:
        folder: the release's folder.
        statement: its statement.json.
        promised: what it should say by params.yaml, of which none is taken from it.
        seed: the experiment's seed.
        privatizer: the mechanism.
        originals: the splits that it was made of.
    """

    def __init__(
        self, folder: Path, seed: int, originals: Originals, promised: dict[str, Any]
    ) -> None:
        """Read a release and its tagged originals."""
        self.folder, self.seed, self.originals, self.promised = folder, seed, originals, promised
        self.privatizer = originals.privatizer
        self.statement = files.read_json(paths.statement(folder))

    @cached_property
    def copies(self) -> list[Copy]:
        """One for each seed."""
        return [Copy(self, k) for k in range(self.promised["seeds"])]

    def facts(self) -> Rows:
        """Compare what the statement says with what it should say: `promised`."""
        told = self.statement
        return [
            {"example_id": name, "promised": told.get(name) == value}
            for name, value in self.promised.items()
        ]

    @property
    def has_vectors(self) -> bool:
        """Whether the release holds a vector for each word."""
        return self.privatizer.mechanism.releases_vectors

    @property
    def is_original(self) -> bool:
        """Whether the release is without noise."""
        return bool(np.isinf(self.privatizer.eta))

    @property
    def grid(self) -> float:
        """The grid of the release's vectors: their numbers are multiples of it."""
        return float(parameters(self.privatizer.mechanism)["grid"])

    def parts(self) -> Rows:
        """List every file of the release with its columns and metadata keys: `allowed`."""
        import pyarrow.parquet as pq

        parts = []
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            name = path.relative_to(self.folder).as_posix()
            parts.append(name)
            if path.suffix == ".parquet":
                schema = pq.read_schema(path)
                parts += [f"{name}: {part}" for part in [*schema.names, *(schema.metadata or {})]]
        allowed = {*self.parts_allowed()}
        return [{"example_id": part, "allowed": part in allowed} for part in parts]

    def parts_allowed(self) -> list[str]:
        """List the only parts that a release may have (docs/data.md, “The release”)."""
        columns = ["example_id", "segment", "words", *(["vectors"] if self.has_vectors else [])]
        columns += ["label"] if self.statement["labels"] else []
        columns += ["space_after"] if self.statement["kind"] == "generate" else []
        within = dict.fromkeys((f"{split}.parquet" for split in SPLITS), columns)
        if self.statement["plain_tokens"]:
            columns += ["sequence", "plain"]
            within["plain.parquet"] = ["sequence", "word", "target"]
        allowed = [paths.statement(self.folder).name]
        for copy in self.copies:
            for name, parts in within.items():
                allowed += [
                    f"{copy.name}/{name}{part}" for part in ["", *(f": {c}" for c in parts)]
                ]
        return allowed


class Copy:
    """One seed's copy of a release.

    Attributes:
        name: name of its folder.
        splits: the released table of each split.
        plain: its public plain tokens, drawn again; None: it has none.
    """

    def __init__(self, release: Release, k: int) -> None:
        """Read the copy of seed k."""
        self.release, self.k, self._folder = release, k, paths.seed(release.folder, k)
        self.name = self._folder.name
        self.splits = {s: files.read_parquet(self._folder / f"{s}.parquet") for s in SPLITS}
        self.plain: seeded.PlainTokens | None = None
        if told := release.statement["plain_tokens"]:
            how = told | {"vocabulary": release.statement["vocabulary"]}
            self.plain = seeded.PlainTokens(release.privatizer, k, seed=release.seed, **how)

    def checks(self) -> Iterator[tuple[str, Rows]]:
        """Yield the place of each check and its rows."""
        if self.plain:
            yield self.name, self._plain_file()
        for split in SPLITS:
            yield f"{self.name}/{split}", self._words(split)
            if self.release.has_vectors:
                yield f"{self.name}/{split}", self._vectors(split)

    def _plain_file(self) -> Rows:
        """Check that plain.parquet names exactly the tokens that are drawn: `drawn`."""
        assert self.plain
        named = files.read_parquet(self._folder / "plain.parquet")
        drawn = named.to_pylist() == self.plain.table().to_pylist()
        return [{"example_id": "plain.parquet", "drawn": drawn}]

    def _words(self, split: str) -> Rows:
        """Check that each text can become its release: `in_order`, `as_many`, `released`, `plain`.

        `alike` is only there if words share their noise, `beside` only of kind generate: the
        spacing and the segments are those of the text.

        `plain` is only there if the copy has plain tokens, and `unchanged` replaces `released` if
        there is no noise. A text that is missing on one side has a row, too.
        """
        privatizer = self.release.privatizer
        released_flag = "unchanged" if self.release.is_original else "released"
        originals = self.release.originals
        shares = seeded.NOISE in originals.tagged[split].schema.names
        shares = shares and not self.release.is_original
        beside: Iterator[bool] = iter(())
        if originals.protect:
            pairs = zip_longest(_beside(originals.tagged[split]), _beside(self.splits[split]))
            beside = (one == other for one, other in pairs)
        ids = originals.tagged[split]["example_id"].to_pylist()
        before = zip(ids, originals.texts[split], strict=True)
        plain = ("sequence", "plain") if self.plain else ()
        after = seeded.rows_of(self.splits[split], "example_id", "words", *plain)
        rows = []
        for one, other in zip_longest(before, after):
            example, text = one or (None, Words([], []))
            example_after, released, *prefix = other or (None, [])
            as_many = len(text.words) == len(released)
            flags = {
                "example_id": example or example_after,
                "in_order": example == example_after,
                **({"alike": not as_many or _alike(text, released)} if shares else {}),
                **({"beside": next(beside)} if originals.protect else {}),
                "as_many": as_many,
                # If the numbers of words differ, only `as_many` reports it.
                released_flag: not as_many
                or _possible(privatizer, text.groups, text.words, released),
            }
            rows.append(flags | ({"plain": self._is_plain(*prefix)} if self.plain else {}))
        return rows

    def _is_plain(self, sequence: int | None = None, released: Sequence[str] = ()) -> bool:
        """Whether a text's privatized plain tokens can come from the sequence it names."""
        assert self.plain
        if sequence is None or sequence not in range(len(self.plain.words)):
            return False
        words, groups = self.plain.words[sequence], self.plain.groups[sequence]
        return len(released) == len(words) and _possible(
            self.release.privatizer, groups, words, released
        )

    def _vectors(self, split: str) -> Rows:
        """Check that vectors are on the grid, and words the nearest to them: `sound`, `nearest`.

        Without noise `own` replaces `nearest`: the vectors are the words' own.
        """
        fits = "own" if self.release.is_original else "nearest"
        privatizer, copy = self.release.privatizer, self.splits[split]
        ids, words = copy["example_id"].to_pylist(), copy["words"].to_pylist()
        kind = pa.list_(pa.list_(pa.float32(), privatizer.table.dimension))
        if "vectors" not in copy.schema.names or copy.schema.field("vectors").type != kind:
            return [{"example_id": example, "sound": False, fits: False} for example in ids]
        every = files.vectors_of_column(copy["vectors"])
        ends = np.cumsum(pc.list_value_length(copy["vectors"]).to_numpy())[:-1]
        parts, sound = np.split(every, ends), np.split(_sound(every, self.release.grid), ends)
        if self.release.is_original:
            own = seeded.release(privatizer, self.release.originals.tagged[split], seed=0)
            expected = chain((text.vectors for text in own), repeat(None))
            belongs = [
                vectors is not None and np.array_equal(part, vectors)
                for part, vectors in zip(parts, expected, strict=False)
            ]
        else:
            nearest = np.split(_nearest(privatizer, every), ends)
            belongs = [list(found) == text for found, text in zip(nearest, words, strict=True)]
        return [
            {
                "example_id": example,
                "sound": len(part) == len(text) and bool(good.all()),
                fits: fit,
            }
            for example, text, part, good, fit in zip(
                ids, words, parts, sound, belongs, strict=True
            )
        ]

    def replaced(self) -> Replaced:
        """Count the protected words that were replaced, and replay a sample of the texts."""
        privatizer, originals = self.release.privatizer, self.release.originals
        flags = {
            split: replaced_words(privatizer, texts, self.splits[split]["words"].to_pylist())
            for split, texts in originals.texts.items()
        }
        released, ours = list[bool](), list[Released]()
        for split, rows in originals.sample.items():
            released += chain.from_iterable(flags[split][row] for row in rows)
            ours += _released(self.splits[split].take(rows))
        every = list(chain.from_iterable(chain.from_iterable(flags.values())))
        laws: list[SignTest] = []
        if not self.release.is_original:
            laws = sign_tests(measures(privatizer, originals.sampled, ours), originals.measures)
        return Replaced(len(every), sum(every), replay_test(released, originals.replaced), laws)


@dataclass(frozen=True)
class Replaced:
    """The number of a copy's protected words that were replaced.

    Attributes:
        words: number of protected words, over all texts.
        replaced: number of replaced ones among them.
        replay: the test of their number on the replayed texts.
        laws: the tests of their law there.
    """

    words: int
    replaced: int
    replay: ReplayTest
    laws: Sequence[SignTest]

    def as_json(self, k: int) -> dict[str, Any]:
        """Return seed k's entry of the field `replaced` (docs/data.md)."""
        replay = self.replay
        words = max(1, replay.words)
        return {
            "seed": k,
            "words": self.words,
            "replaced": self.replaced,
            "share": self.replaced / max(1, self.words),
            "replay": {
                "words": replay.words,
                "share": replay.replaced / words,
                "expected": replay.expected / words,
                "low": replay.low / words,
                "high": replay.high / words,
            },
            "laws": [asdict(law) | {"passed": law.passed} for law in self.laws],
        }


def _possible(
    privatizer: Privatizer, groups: Sequence[int], words: Sequence[str], released: Sequence[str]
) -> bool:
    """Whether the mechanism can release these words: of each word's group, or verbatim."""
    if np.isinf(privatizer.eta):
        return list(words) == list(released)
    return all(
        after in privatizer.words_of(group) if group != VERBATIM else after == before
        for group, before, after in zip(groups, words, released, strict=True)
    )


def _alike(text: Words, released: Sequence[str]) -> bool:
    """Whether protected words that share their noise were released as the same word."""
    pairs = zip(released, text.sources, text.groups, strict=True)
    return all(group == VERBATIM or word == released[of] for word, of, group in pairs)


def _beside(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(seeded.rows_of(table, "segment", "space_after"))


def _sound(vectors: NDArray[np.float32], grid: float) -> NDArray[np.bool_]:
    """Check that all numbers of each vector are finite and on the grid, (n,)."""
    sound = np.empty(len(vectors), np.bool_)
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        steps = vectors[part].astype(np.float64) / grid
        sound[part] = (np.isfinite(steps) & (steps == np.round(steps))).all(axis=1)
    return sound


def _nearest(privatizer: Privatizer, vectors: NDArray[np.float32]) -> NDArray[np.object_]:
    """Return the word nearest to each vector, (n,); numbers that are not finite count as 0."""
    parts = (vectors[start : start + CHUNK] for start in range(0, len(vectors), CHUNK))
    known = (np.nan_to_num(part, posinf=0, neginf=0) for part in parts)
    return np.concatenate([np.empty(0, object), *map(privatizer.nearest, known)])


def _released(rows: pa.Table) -> list[Released]:
    """Read the words of some released texts, and their vectors if there are any."""
    words = rows["words"].to_pylist()
    if "vectors" not in rows.column_names:
        return [Released(text) for text in words]
    vectors = files.vectors_of_column(rows["vectors"])
    ends = np.cumsum([len(text) for text in words])[:-1]
    return [Released(*pair) for pair in zip(words, np.split(vectors, ends), strict=True)]
