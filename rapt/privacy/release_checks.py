"""A release beside the tagged text that it came from: what it holds, and whether that fits.

Every check returns rows with an `example_id` and flags that are True where all is well; which of
them must hold is up to the gate. No row holds a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
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
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.statistics import ReplayTest, replay_test
from rapt.privacy.streams import stream
from rapt.utils import files

SPLITS = ("train", "test")
CHUNK = 1 << 14  # vectors that are looked at together
# Protected words of each split that are replayed, at most. 4,000 of both splits show a replaced
# share that is 6 percentage points too low.
REPLAYED = 2000
Rows = list[dict[str, Any]]


class Release:
    """A release of a task's two splits, and the mechanism that its statement names.

    Attributes:
        folder: of the release.
        statement: its statement.json.
        seed: of the experiment.
        privatizer: the mechanism.
        tagged: the original splits.
        copies: one for each seed.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        """Read a release, and what it came from."""
        self.folder, self.seed = folder, seed
        told = self.statement = files.read_json(folder / "statement.json")
        self.privatizer = seeded.privatizer(
            told["embedding"],
            {"type": told["mechanism"], **told["parameters"]},
            told["categories"],
            told["eta"],
        )
        tagged = paths.tagged(told["task"])
        self.tagged = {split: files.read_parquet(tagged / f"{split}.parquet") for split in SPLITS}
        self.copies = [Copy(self, k) for k in range(told["seeds"])]

    @property
    def has_vectors(self) -> bool:
        """Whether each word has a vector beside it."""
        return seeded.releases_vectors(self.privatizer)

    @property
    def is_original(self) -> bool:
        """Whether it is without noise."""
        return bool(np.isinf(self.privatizer.eta))

    @property
    def grid(self) -> float:
        """What the numbers of its vectors are multiples of."""
        return float(parameters(self.privatizer.mechanism)["grid"])

    def parts(self) -> Rows:
        """Every file of the release, and every column and metadata key in it: `part`."""
        import pyarrow.parquet as pq

        parts = []
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            name = path.relative_to(self.folder).as_posix()
            parts.append(name)
            if path.suffix == ".parquet":
                schema = pq.read_schema(path)
                parts += [f"{name}: {part}" for part in [*schema.names, *(schema.metadata or {})]]
        return [{"example_id": part, "part": part} for part in parts]

    def parts_allowed(self) -> list[str]:
        """docs/data.md, “The release”: nothing else may be in it."""
        columns = ["example_id", "segment", "words", *(["vectors"] if self.has_vectors else [])]
        columns += ["label"] if self.statement["labels"] else []
        within = dict.fromkeys((f"{split}.parquet" for split in SPLITS), columns)
        if self.statement["plain_tokens"]:
            columns += ["sequence", "plain"]
            within["plain.parquet"] = ["sequence", "word", "target"]
        allowed = ["statement.json", "statement.txt"]
        for copy in self.copies:
            for name, parts in within.items():
                allowed += [
                    f"{copy.name}/{name}{part}" for part in ["", *(f": {c}" for c in parts)]
                ]
        return allowed


class Copy:
    """One seed's copy of a release.

    Attributes:
        name: of its folder.
        splits: what was released of each split.
        plain: its public plain tokens, drawn again; None: it has none.
    """

    def __init__(self, release: Release, k: int) -> None:
        """Read the copy of seed k."""
        self.release, self.k, self.name = release, k, f"seed-{k}"
        self._folder = release.folder / self.name
        self.splits = {s: files.read_parquet(self._folder / f"{s}.parquet") for s in SPLITS}
        told = release.statement
        self.plain = (
            seeded.PlainTokens(
                release.privatizer,
                k,
                seed=release.seed,
                **told["plain_tokens"],
                vocabulary=told["vocabulary"],
            )
            if told["plain_tokens"]
            else None
        )

    def checks(self) -> Iterator[tuple[str, Rows]]:
        """Where each check was made, and its rows."""
        if self.plain:
            yield self.name, self._plain_file()
        for split in SPLITS:
            yield f"{self.name}/{split}", self._words(split)
            if self.release.has_vectors:
                yield f"{self.name}/{split}", self._vectors(split)

    def _plain_file(self) -> Rows:
        """Whether plain.parquet names the tokens that are drawn and no others: `drawn`."""
        assert self.plain
        named = files.read_parquet(self._folder / "plain.parquet").to_pylist()
        expected = [
            {"sequence": sequence, "word": word, "target": target}
            for sequence, words in enumerate(self.plain.words)
            for word, target in zip(words, self.plain.targets[sequence].tolist(), strict=True)
        ]
        return [{"example_id": "plain.parquet", "drawn": named == expected}]

    def _words(self, split: str) -> Rows:
        """Whether each text's words can come from it: `in_order`, `as_many`, `released`, `plain`.

        `plain` is there where the copy has plain tokens; `unchanged` in place of `released` where
        there is no noise. A text that stands on one side alone has a row, too.
        """
        privatizer = self.release.privatizer
        released_flag = "unchanged" if self.release.is_original else "released"
        before = _columns(self.release.tagged[split], "example_id", "words", "pos")
        plain = ("sequence", "plain") if self.plain else ()
        after = _columns(self.splits[split], "example_id", "words", *plain)
        rows = []
        for one, other in zip_longest(before, after):
            example, words, pos = one or (None, [], [])
            example_after, released, *prefix = other or (None, [])
            as_many = len(words) == len(released)
            groups = privatizer.groups_of_text(pos)
            flags = {
                "example_id": example or example_after,
                "in_order": example == example_after,
                "as_many": as_many,
                # Words that cannot be compared one by one are reported as too many or too few.
                released_flag: not as_many or _possible(privatizer, groups, words, released),
            }
            rows.append(flags | ({"plain": self._is_plain(*prefix)} if self.plain else {}))
        return rows

    def _is_plain(self, sequence: int | None = None, released: Sequence[str] = ()) -> bool:
        """Whether a text's privatized plain tokens can come from the sequence that it names."""
        assert self.plain
        if sequence is None or sequence not in range(len(self.plain.words)):
            return False
        words, groups = self.plain.words[sequence], self.plain.groups[sequence]
        return len(released) == len(words) and _possible(
            self.release.privatizer, groups, words, released
        )

    def _vectors(self, split: str) -> Rows:
        """Whether vectors are the mechanism's, and a text's words theirs: `sound`, `nearest`.

        Without noise `own` takes the place of `nearest`: the vectors are those of the words.
        """
        fits = "own" if self.release.is_original else "nearest"
        privatizer, copy = self.release.privatizer, self.splits[split]
        ids, words = copy["example_id"].to_pylist(), copy["words"].to_pylist()
        kind = pa.list_(pa.list_(pa.float32(), privatizer.table.dimension))
        if "vectors" not in copy.schema.names or copy.schema.field("vectors").type != kind:
            return [{"example_id": example, "sound": False, fits: False} for example in ids]
        every = files.vectors_of_column(copy["vectors"])
        sound = _sound(every, self.release.grid)
        tagged = self.release.tagged[split]
        expected = seeded.vectors(privatizer, tagged, seed=0) if self.release.is_original else None
        nearest = [] if expected else _nearest(privatizer, every)
        ends = np.cumsum([0, *pc.list_value_length(copy["vectors"]).to_pylist()]).tolist()
        rows = []
        for example, text, start, end in zip(ids, words, ends[:-1], ends[1:], strict=True):
            as_many = end - start == len(text)
            belongs = (
                nearest[start:end] == text
                if expected is None
                else np.array_equal(every[start:end], next(expected, []))
            )
            good = as_many and bool(sound[start:end].all())
            rows.append({"example_id": example, "sound": good, fits: belongs})
        return rows

    def replaced(self) -> Replaced:
        """Count the protected words that were replaced, and replay a sample of the texts."""
        privatizer, seed = self.release.privatizer, self.release.seed
        task = self.release.statement["task"]
        every: list[bool] = []
        released: list[bool] = []
        replayed: list[bool] = []
        for split, tagged in self.release.tagged.items():
            flags = _replaced(privatizer, tagged, self.splits[split]["words"].to_pylist())
            every += chain.from_iterable(flags)
            drawn = stream(seed, self.k, task, split, "gate-sample")
            rows = _sample([len(text) for text in flags], drawn)
            sample = tagged.select(["example_id", "words", "pos"]).take(rows)
            again = list(seeded.texts(privatizer, sample, self.k, task, "gate", seed=seed))
            released += chain.from_iterable(flags[row] for row in rows)
            replayed += chain.from_iterable(_replaced(privatizer, sample, again))
        return Replaced(len(every), sum(every), replay_test(released, replayed))


@dataclass(frozen=True)
class Replaced:
    """How many of a copy's protected words were replaced.

    Attributes:
        words: protected ones, of all texts.
        replaced: of these.
        replay: the test on the texts that were replayed.
    """

    words: int
    replaced: int
    replay: ReplayTest

    def as_json(self, k: int) -> dict[str, Any]:
        """What docs/data.md says of the field `replaced`, of seed k."""
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
        }


def _columns(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def _possible(
    privatizer: Privatizer, groups: Sequence[int], words: Sequence[str], released: Sequence[str]
) -> bool:
    """Whether the mechanism can release these words: no unknown word may have passed through."""
    if np.isinf(privatizer.eta):
        return list(words) == list(released)
    return all(
        after in privatizer.words_of(group) if group != VERBATIM else after == before
        for group, before, after in zip(groups, words, released, strict=True)
    )


def _sound(vectors: NDArray[np.float32], grid: float) -> NDArray[np.bool_]:
    """Whether all numbers of a vector are finite and on the grid (n,)."""
    sound = np.empty(len(vectors), np.bool_)
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        steps = vectors[part].astype(np.float64) / grid
        sound[part] = (np.isfinite(steps) & (steps == np.round(steps))).all(axis=1)
    return sound


def _nearest(privatizer: Privatizer, vectors: NDArray[np.float32]) -> list[str]:
    """The word nearest to each vector, those that are not finite taken for the origin."""
    nearest = seeded.representer(privatizer).nearest
    parts = (vectors[start : start + CHUNK] for start in range(0, len(vectors), CHUNK))
    return [word for part in parts for word in nearest(np.nan_to_num(part, posinf=0, neginf=0))]


def _replaced(
    privatizer: Privatizer, tagged: pa.Table, after: Sequence[Sequence[str]]
) -> list[list[bool]]:
    """Whether each protected word of each text was replaced."""
    flags = []
    for (words, pos), released in zip(_columns(tagged, "words", "pos"), after, strict=True):
        groups = privatizer.groups_of_text(pos)
        changed = privatizer.replaced(words, released)
        flags.append([c for c, group in zip(changed, groups, strict=True) if group != VERBATIM])
    return flags


def _sample(words: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Texts drawn at random until they have REPLAYED words; at least one."""
    order = rng.permutation(len(words))
    few = np.searchsorted(np.cumsum(np.asarray(words, np.int64)[order]), REPLAYED, side="right")
    return sorted(order[: max(1, int(few))].tolist())
