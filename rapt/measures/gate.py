"""The gate on a release: it is made again from the tagged text, and compared.

Every check returns rows with an `example_id` and flags, which should be True: FLAGS says what each
stands for. No row contains a word of a text. Its JSON is in docs/data.md, “Gates”.

Seed, mechanism and η come from params.yaml, columns beside the words from the tagged text. Nothing
is taken from the release. What the mechanism's code itself does wrong, it does again here: that is
for the audit to find.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rapt import paths
from rapt.param_types import Protect
from rapt.privacy import seeded
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.fates import NOISE
from rapt.privacy.labels import RandomizedLabels
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.released import Released
from rapt.privacy.streams import stream
from rapt.results.gates import Finding, finding, report
from rapt.text.mentions import PROTECTED
from rapt.text.tagged import Tagged
from rapt.utils import files
from rapt.utils.progress import bar

# Texts of a split, at most, with a word that differs by a near-tie. The last bit of a sum depends
# on the processor, so another one may decide a near-tie otherwise. That happens to fewer than one
# of a million words; on one processor it never does.
TIES = 5
# Relative change of η under which a near-tie falls either way. It is far above float32's 6e-8.
NEAR = 1e-5
# Words of a split's texts that are made again, about; of a larger split evenly spaced texts are,
# LEAST of them or more. A fault in 2 of a hundred texts, spread at random, is missed with
# 0.98 to the power of LEAST: 2e-9.
AGAIN, LEAST = 200_000, 1_000
SPLITS = ("train", "test")
Rows = list[dict[str, Any]]
MADE = "those that seed, mechanism and eta of params.yaml make of the text"
# What each flag says, and what is allowed.
FLAGS = {
    "promised": ("the statement is that of params.yaml", "the same mechanism, eta and contents"),
    "allowed": ("nothing but the release's files", "its statement, splits and plain tokens"),
    "drawn": ("plain tokens are public words", "those that params.yaml draws"),
    "in_order": ("same examples", "the same ids in the same order"),
    "beside": ("labels, segments and spacing", "those of the text"),
    "words": ("words are made again", MADE),
    "vectors": ("vectors are made again", MADE),
    "vector": ("the vector of each text is made again", MADE),
    "segment": ("segments are made again", MADE),
    "plain": ("plain words are made again", "the sequence and the words that params.yaml makes"),
}


@dataclass
class Originals:
    """A task's tagged splits, and a mechanism for them.

    Attributes:
        privatizer: of the mechanism at its η.
        task: name of the task.
        seed: the experiment's seed.
        protect: which words of an example share their noise; None: each has its own.
    """

    privatizer: AnyPrivatizer[Any]
    task: str
    seed: int
    protect: Protect | None = None

    @cached_property
    def tagged(self) -> dict[str, pa.Table]:
        """The splits."""
        folder = paths.tagged(self.task)
        found = {split: files.read_parquet(folder / f"{split}.parquet") for split in SPLITS}
        if self.protect is None:
            return found
        return {split: self._with_noise(table, self.protect) for split, table in found.items()}

    @staticmethod
    def _with_noise(tagged: pa.Table, protect: Protect) -> pa.Table:
        """Decide anew which words share their noise, as the file may be wrong."""
        columns = ("words", "pos", "space_after", "identifier", "segment")
        noise = []
        for *row, segment in seeded.rows_of(tagged, *columns):
            both, source = Tagged(*row), segment.count(0)
            parts = both.part(slice(0, source)), both.part(slice(source, None))
            noise.append(PROTECTED[protect](*parts).noise)
        at = tagged.column_names.index(seeded.NOISE)
        return tagged.set_column(at, seeded.NOISE, pa.array(noise, pa.list_(pa.int32())))

    @cached_property
    def texts(self) -> dict[str, list[PreparedText]]:
        """Each text of the splits as the privatizer prepares it."""
        return {
            split: list(seeded.prepared(self.privatizer, tagged))
            for split, tagged in self.tagged.items()
        }

    def copy(self, k: int, split: str) -> list[PreparedText]:
        """Each text of a split with the random stream that seed k's copy takes."""
        ids = self.tagged[split]["example_id"].to_pylist()
        return [
            replace(text, stream=partial(stream, self.seed, k, self.task, example))
            for text, example in zip(self.texts[split], ids, strict=True)
        ]


def originals(
    embedding: str, law: str, task: str, seed: int, protect: Protect | None = None
) -> Originals:
    """Prepare the checks of releases of a task.

    Args:
        embedding: name of the table.
        law: mechanism, categories and η of the releases, as JSON.
        task: name of the task.
        seed: the experiment's.
        protect: as in `Originals`.
    """
    return Originals(seeded.privatizer(embedding, *json.loads(law)), task, seed, protect)


class CheckedRelease:
    """A release of a task's two splits, and the mechanism that should have made it.

    Attributes:
        statement: its statement.json.
        promised: what it should say by params.yaml, of which none is taken from it.
        originals: the splits that it was made of.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        originals: Originals,
        promised: dict[str, Any],
        kept_columns: Sequence[str] = (),
        labels: RandomizedLabels | None = None,
    ) -> None:
        """Read a release, its tagged originals, and which columns its task keeps."""
        self.kept_columns, self.labels = kept_columns, labels
        self.folder, self.seed, self.originals, self.promised = folder, seed, originals, promised
        self.privatizer = originals.privatizer
        self.statement = files.read_json(paths.statement(folder))

    @cached_property
    def copies(self) -> list[CheckedCopy]:
        """One for each seed."""
        return [CheckedCopy(self, k) for k in range(self.promised["seeds"])]

    def facts(self) -> Rows:
        """Compare what the statement says with what it should say: `promised`."""
        told = self.statement
        return [
            {"example_id": name, "promised": told.get(name) == value}
            for name, value in self.promised.items()
        ]

    def parts(self) -> Rows:
        """List every file of the release, and the keys of its metadata: `allowed`."""
        import pyarrow.parquet as pq

        parts = []
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            name = path.relative_to(self.folder).as_posix()
            metadata = pq.read_schema(path).metadata or {} if path.suffix == ".parquet" else {}
            parts += [name, *(f"{name}: {key}" for key in metadata)]
        names = [f"{split}.parquet" for split in SPLITS]
        names += ["plain.parquet"] if self.promised["plain_tokens"] else []
        allowed = {f"{copy.name}/{name}" for copy in self.copies for name in names}
        allowed.add(paths.statement(self.folder).name)
        return [{"example_id": part, "allowed": part in allowed} for part in parts]

    @property
    def unit(self) -> type[Released]:
        """What is released of a text."""
        return self.privatizer.releases

    @cached_property
    def columns(self) -> list[str]:
        """The columns of a split (docs/data.md, “The release”)."""
        columns = ["example_id", *self.unit.copied, *self.unit.columns, *self.kept_columns]
        return columns + (["sequence", "plain"] if self.promised["plain_tokens"] else [])


class CheckedCopy:
    """One seed's copy of a release.

    Attributes:
        name: name of its folder.
        plain: its public plain tokens, drawn again; None: it has none.
        ties: number of words that differ by a near-tie, once `checks` has run.
    """

    def __init__(self, release: CheckedRelease, k: int) -> None:
        """Read the copy of seed k."""
        self.release, self.k, self._folder = release, k, paths.seed(release.folder, k)
        self.name, self.ties = self._folder.name, 0
        self.splits = {s: files.read_parquet(self._folder / f"{s}.parquet") for s in SPLITS}
        self.plain: seeded.PlainTokens | None = None
        if config := release.promised["plain_tokens"]:
            config = config | {"vocabulary": release.promised["vocabulary"]}
            privatizer = of_words(release.privatizer)
            self.plain = seeded.PlainTokens(privatizer, k, seed=release.seed, **config)

    def checks(self) -> Iterator[tuple[str, Rows]]:
        """Yield the place of each check and its rows."""
        if self.plain:
            yield self.name, self._plain_file(self.plain)
        for split in SPLITS:
            yield f"{self.name}/{split}", self._split(split)

    def _plain_file(self, plain: seeded.PlainTokens) -> Rows:
        """Check that plain.parquet names exactly the tokens that are drawn: `drawn`."""
        named = files.read_parquet(self._folder / "plain.parquet")
        return [{"example_id": "plain.parquet", "drawn": named.equals(plain.table())}]

    def _split(self, split: str) -> Rows:
        """Check each text of a split: `in_order`, `beside`, and each column of the unit.

        `plain` is only there if the copy has plain tokens. A text that is missing on one side has a
        row, too.
        """
        release, table = self.release, self.splits[split]
        originals = release.originals
        tagged = originals.tagged[split]
        if release.labels:
            tagged = release.labels.of(tagged, split, self.k, originals.task)
        ids, released_ids = tagged["example_id"].to_pylist(), _column(table, "example_id")
        copied = dict.fromkeys([*release.unit.copied, *release.kept_columns])
        kept = [name for name in copied if name in release.columns]
        flags = {"in_order": _same(ids, released_ids)}
        if kept:
            flags["beside"] = _same(_rows(tagged, kept), _rows(table, kept))
        flags |= self._made_again(originals.copy(self.k, split), release.unit.values(table))
        if self.plain:
            sequences = self.plain.sequences(ids, originals.task)
            tokens = self.plain.texts(ids, originals.task)
            named = _same(sequences, _column(table, "sequence"))
            made = self._made_again(tokens, {"words": _column(table, "plain")})["words"]
            flags["plain"] = [one and other for one, other in zip(named, made, strict=True)]
        every = (one or other for one, other in zip_longest(ids, released_ids))
        return [
            {"example_id": example, **dict(zip(flags, row, strict=True))}
            for example, *row in zip(every, *flags.values(), strict=True)
        ]

    def _made_again(
        self, texts: Sequence[PreparedText], released: Mapping[str, Sequence[Any]]
    ) -> dict[str, list[bool]]:
        """Release texts again: whether the values of each column are equal.

        Of texts that are not made again, whether the mechanism can release these values.
        """
        privatizer = self.release.privatizer
        sizes = {len(values) for values in released.values()} - {len(texts)}
        if sizes:
            return dict.fromkeys(released, [False] * max(len(texts), *sizes))
        chosen = _spread(texts)
        made = list(privatizer.release(texts[at] for at in chosen))
        flags = {}
        for column, values in released.items():
            pairs = zip(texts, values, strict=True)
            flags[column] = [privatizer.is_possible(text, column, value) for text, value in pairs]
            for at, again in zip(chosen, made, strict=True):
                flags[column][at] = self.release.unit.is_equal(again.value(column), values[at])
        if self.release.unit.has_channel:
            self._allow_ties(texts, released["words"], chosen, flags["words"])
        return flags

    def _allow_ties(
        self,
        texts: Sequence[PreparedText],
        released: Sequence[list[str] | None],
        chosen: Sequence[int],
        words: list[bool],
    ) -> None:
        """Take texts for equal whose words differ by near-ties alone, if they are few."""
        differing = [at for at in chosen if not words[at]]
        if 0 < len(differing) <= TIES:
            privatizer = of_words(self.release.privatizer)
            some = [(texts[at], released[at]) for at in differing]
            for at, ties in zip(differing, _ties(privatizer, some), strict=True):
                words[at] = ties is not None
                self.ties += ties or 0

    def as_json(self) -> dict[str, Any]:
        """Count the protected words that were replaced: the entry of `replaced` (docs/data.md)."""
        flags = list(
            chain.from_iterable(
                _replaced(of_words(self.release.privatizer), text, words)
                for split, texts in self.release.originals.texts.items()
                for text, words in zip(texts, self.splits[split]["words"].to_pylist(), strict=True)
            )
        )
        return {
            "seed": self.k,
            "words": len(flags),
            "replaced": sum(flags),
            "share": sum(flags) / max(1, len(flags)),
            "ties": self.ties,
        }


def _replaced(privatizer: Privatizer, text: PreparedText, released: Sequence[str]) -> list[bool]:
    """Whether each protected word of a text was replaced."""
    each = zip(privatizer.replaced(text.words, released), text.fates, strict=True)
    return [is_changed for is_changed, fate in each if fate == NOISE]


def _ties(
    privatizer: Privatizer, pairs: Sequence[tuple[PreparedText, list[str] | None]]
) -> list[int | None]:
    """The number of words of each text that differ by a near-tie; None: others differ, too.

    By a near-tie a word becomes the released one at an η that is a little larger or smaller.
    """
    if np.isinf(privatizer.eta):
        return [None] * len(pairs)
    etas = [privatizer.eta * factor for factor in (1, 1 - NEAR, 1 + NEAR)]
    texts = [text for text, _ in pairs]
    made = zip(*(privatizer.at(eta).privatize(texts) for eta in etas), strict=True)
    return [
        sum(word != ours for word, ours in zip(words, again[0], strict=True))
        if words
        and len(words) == len(again[0])
        and all(word in possible for word, *possible in zip(words, *again, strict=True))
        else None
        for again, (_, words) in zip(made, pairs, strict=True)
    ]


def _spread(texts: Sequence[PreparedText]) -> list[int]:
    """Places of evenly spaced texts with about AGAIN words, the first and the last among them."""
    words = sum(len(text.words) for text in texts)
    count = min(len(texts), max(LEAST, len(texts) * AGAIN // max(1, words)))
    return np.unique(np.linspace(0, len(texts) - 1, count).round().astype(int)).tolist()


def _same(one: Iterable[Any], other: Iterable[Any]) -> list[bool]:
    """Whether each value equals the other's in its place; where one has none, it does not."""
    return [a == b for a, b in zip_longest(one, other, fillvalue=_same)]


def _column(table: pa.Table, name: str) -> list[Any]:
    """The values of a column; None for each row if it is missing."""
    return table[name].to_pylist() if name in table.column_names else [None] * len(table)


def _rows(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_column(table, name) for name in columns), strict=True)


def checked(release: CheckedRelease, of_tables: list[Finding]) -> dict[str, Any]:
    """Make a release again and compare; return the gate's JSON.

    Args:
        release: the release.
        of_tables: what was found in its tables themselves.
    """
    findings = [*_findings("statement.json", release.facts()), *of_tables]
    findings += _findings("release", release.parts())
    for copy in bar(release.copies, "make it again", len(release.copies)):
        for where, rows in copy.checks():
            findings += _findings(where, rows)
    facts = {key: release.promised[key] for key in ("task", "method", "eta")}
    facts["sha256"] = files.sha256(release.folder)
    # Word by word needs as many words.
    sound = release.unit.aligned and all(one["passed"] for one in findings)
    facts["replaced"] = [copy.as_json() for copy in release.copies] if sound else []
    return report(findings, gate="private", **facts)


def _findings(where: str, rows: Rows) -> Iterator[Finding]:
    """Yield what was found by each flag of the rows, which should be True in all of them."""
    for flag in [name for name in rows[0] if name in FLAGS] if rows else ():
        failed = [row["example_id"] for row in rows if not row[flag]]
        yield finding(where, *FLAGS[flag], len(rows), len(failed), failed)
