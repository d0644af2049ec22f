"""The ways to release texts, as a user takes them: words in, words out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import binom, kstest

from rapt.audit.cases import write_table
from rapt.audit.exact import differs, tail, two_sided
from rapt.audit.laws import Check, forked, repeats
from rapt.audit.power import smallest_excess
from rapt.privacy import streams
from rapt.release.formats import FORMATS, TEXT
from rapt.release.job import Job
from rapt.release.spacy import NAME
from rapt.release.text import AGAIN, TextPrivatizer

# The table's words lie on a line. A text repeats the one in the middle, kept half of the time.
PLACES = {"left": -1.0, "middle": 0.0, "right": 1.0}
TEXTS, WORDS = 80, 250
HALF = TEXTS // 2
GENERATORS = 1 << 13  # of each of two processes, and of this one
NUMBERS = 1 << 64  # that a generator draws from
REPEATS = 6.64  # expected, so that there are two or more with probability POWER


class Paths:
    """A table, and the ways to release texts over it by T2T.

    The first half of the texts and the second come from different calls or processes.
    """

    def __init__(self, folder: Path, dimension: int) -> None:
        """Write the table."""
        self._folder, self._dimension = folder, dimension
        vectors = np.zeros((len(PLACES), dimension))
        vectors[:, 0] = list(PLACES.values())
        self._table = folder / "table"
        self._table.mkdir()
        write_table(self._table, list(PLACES), vectors, np.ones(len(PLACES)))
        # Along the line the noise has the standard deviation √(d + 1)/η.
        self._eta = 1.349 * np.sqrt(dimension + 1)
        self._options = {"table": str(self._table), "eta": self._eta, "language": "any"}
        self._privatizer = TextPrivatizer(**self._options, allow_weak=True)
        self._texts = [" ".join(["middle"] * WORDS)] * HALF

    def names(self) -> dict[str, Callable[[], Sequence[str]]]:
        """The ways, by name."""
        return {
            "files": self._files,
            "workers": self._workers,
            "spaCy": self._spacy,
            "datasets.map": self._map,
        }

    def _files(self) -> list[str]:
        released = []
        for call in "ab":
            path, out = self._folder / f"{call}.txt", self._folder / f"{call}.out"
            path.write_text("".join(f"{text}\n" for text in self._texts))
            Job(path, out, FORMATS["text"], (TEXT,)).run(self._privatizer)
            released += out.read_text().splitlines()
        return released

    def _workers(self) -> list[str]:
        path, out = self._folder / "in", self._folder / "out"
        path.mkdir()
        for name in "ab":
            pq.write_table(pa.table({TEXT: self._texts}), path / f"{name}.parquet")
        job = Job(path, out, FORMATS["parquet"], (TEXT,))
        with job.opened(self._privatizer):
            forked(lambda process: job.release(job.names[process], self._privatizer) and None)
            job.finish(self._privatizer)
        return list(pq.read_table(out)[TEXT].to_pylist())

    def _spacy(self) -> list[str]:
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe(NAME, config=self._options | {"allow_weak": True})
        docs = nlp.pipe(self._texts * 2, n_process=2, batch_size=HALF)
        return [doc._.privatized for doc in docs]

    def _map(self) -> list[str]:
        mapper = self._privatizer.mapper([TEXT])
        one, other = forked(lambda _: list(mapper({TEXT: self._texts})[TEXT]))
        return one + other

    def law(self, factor: float = 1.0) -> list[float]:
        """The probability of each word at f·η."""
        beside = tail(factor * self._eta / 2, self._dimension)
        return [beside, 1 - 2 * beside, beside]

    def checks(self, released: Sequence[str]) -> Iterator[Check]:
        """Test the law of released texts, and that none repeats another's noise."""
        number = {word: code for code, word in enumerate(PLACES)}
        codes = [[number.get(word, -1) for word in text.split()] for text in released]
        if [len(text) for text in codes] != [WORDS] * TEXTS:
            yield Check("the number of texts and words", 0.0)
            return
        words, law = np.array(codes), np.array(self.law())
        for word, code in number.items():
            count = (words == code).sum()
            p = two_sided(binom(words.size, law[code]), count)
            yield Check(f"how often {word} is released", p)
        equal = float((law**2).sum())
        for name, one, other in (
            ("of two texts", words[0::2], words[1::2]),
            ("of two calls or processes", words[:HALF], words[HALF:]),
            ("of one text", words[:, 0::2], words[:, 1::2]),
        ):
            agreeing = two_sided(binom(one.size, equal), (one == other).sum())
            yield Check(f"how often words {name} agree", agreeing)
        keys = np.array([hash(tuple(text)) for text in codes])
        yield Check("repeated texts", repeats([keys], equal**WORDS))

    def excess(self, level: float) -> float | None:
        """The smallest factor on η that is detected."""
        law = np.array(self.law())
        return smallest_excess(
            lambda factor: differs(law, np.array(self.law(factor)), TEXTS * WORDS, level)
        )


def released(dimension: int) -> Iterator[tuple[str, list[Check], Callable[[float], float | None]]]:
    """Yield each way to release texts, its tests, and the excess that they detect at a level."""
    with TemporaryDirectory() as folder, _ledger_in(folder):
        made = Paths(Path(folder), dimension)
        for name, way in made.names().items():
            yield name, list(made.checks(way())), made.excess


@contextmanager
def _ledger_in(folder: str) -> Iterator[None]:
    """Keep what is released for an audit out of the user's own ledger, in each process."""
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = folder
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=re.escape(AGAIN))
            yield
    finally:
        del os.environ["XDG_DATA_HOME"]
        if before is not None:
            os.environ["XDG_DATA_HOME"] = before


def generator() -> list[Check]:
    """Test that no two generators of releases draw the same, here or in two processes."""

    def first(_: int = 0) -> np.ndarray:
        return np.array([streams.fresh().bit_generator.random_raw() for _ in range(GENERATORS)])

    every = [first(), *forked(first)]
    uniform = np.concatenate(every) / NUMBERS
    return [
        Check("the law of its first number", float(kstest(uniform, lambda number: number).pvalue)),
        Check("repeats in calls and processes", repeats(every, 1 / NUMBERS)),
    ]


def states() -> float:
    """The greatest number of states, in bits, of which the generators' repeats would be seen."""
    return log((3 * GENERATORS) ** 2 / 2 / REPEATS, 2)
