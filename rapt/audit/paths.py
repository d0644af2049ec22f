"""The ways to release texts, as a user takes them: words in, words out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import kstest
from threadpoolctl import threadpool_limits

from rapt.audit.corpus import corpus
from rapt.audit.exact import REPEATS
from rapt.audit.laws import Check, Numbers, bits, coarse, forked, repeats
from rapt.audit.strata import Law, Search, watched
from rapt.data.config import Format
from rapt.data.read import TEXT
from rapt.measures import strength
from rapt.privacy import streams
from rapt.release import text as release_text
from rapt.release.job import Job
from rapt.release.spacy import NAME
from rapt.release.text import AGAIN, TextPrivatizer

T = TypeVar("T")
Seen = tuple[T, Numbers | None]
# The law, the words of each text in each call, and the noise of each word, where it is seen.
Calls = tuple[Law, Sequence[Any], Sequence[Numbers | None]]

ETA = 14.0  # over the corpus
GENERATORS = 1 << 13  # of each of two processes, and of this one
FEW = 256  # generators, and numbers that each draws, whose grid is tested
NUMBERS = 1 << 64  # that a generator draws from


@lru_cache(1)
def t2t() -> Law:
    """T2T's law of the corpus."""
    return Law(corpus(), ETA)


class Paths:
    """The ways to release the corpus, each in two calls or processes."""

    def __init__(self, folder: Path) -> None:
        """Write the table."""
        self._folder, self._corpus = folder, corpus()
        (folder / "table").mkdir()
        self._corpus.write(folder / "table")
        self._texts = [" ".join(words) for words in self._corpus.texts]
        self._law = t2t()

    def ways(self) -> dict[str, Callable[[], Calls]]:
        """The ways, by name: T2T in two calls or processes, and once within categories."""
        return {
            "files": self._files,
            "workers": self._workers,
            "spaCy": self._spacy,
            "datasets.map": self._map,
            "category": self._categories,
        }

    def _opened(self, **more: Any) -> TextPrivatizer:
        return release_text.TextPrivatizer(**self._options | more)

    @property
    def _options(self) -> dict[str, Any]:
        table = str(self._folder / "table")
        return {"table": table, "eta": ETA, "language": "any", "allow_weak": True}

    def _seen(self, release: Callable[[TextPrivatizer], T]) -> Seen[T]:
        """Release the corpus by a new privatizer, and see the noise of each word."""
        with watched() as searches, threadpool_limits(1, "blas"):  # in order
            privatizer = self._opened()
            before = _forget(searches, privatizer)
            released = release(privatizer)
        return released, self._law.noise(before)

    def _file(self, privatizer: TextPrivatizer) -> list[list[str]]:
        path, out = self._folder / "in.txt", self._folder / "out.txt"
        path.write_text("".join(f"{text}\n" for text in self._texts))
        Job(path, out, Format(type="text"), overwrite=True).run(privatizer)
        return _split(out.read_text().splitlines())

    def _files(self) -> Calls:
        return self._both(self._seen(self._file) for _ in range(2))

    def _workers(self) -> Calls:
        path, out = self._folder / "in", self._folder / "out"
        path.mkdir()
        for name in "ab":
            pq.write_table(pa.table({TEXT: self._texts}), path / f"{name}.parquet")
        job = Job(path, out, Format(type="parquet"))
        with job.opened(self._opened()):
            noise = forked(
                lambda process: self._seen(
                    lambda privatizer: job.release(job.names[process], privatizer)
                )[1]
            )
            job.finish(self._opened())
        texts = _split(pq.read_table(out)[TEXT].to_pylist())
        return self._law, self._halves(texts), noise

    def _spacy(self) -> Calls:
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe(NAME, config=self._options)
        docs = nlp.pipe(self._texts * 2, n_process=2, batch_size=len(self._texts))
        texts = _split([doc._.privatized for doc in docs])
        return self._law, self._halves(texts), ()

    def _map(self) -> Calls:
        def release(privatizer: TextPrivatizer) -> list[list[str]]:
            return _split(privatizer.mapper([TEXT])({TEXT: self._texts})[TEXT])

        return self._both(forked(lambda _: self._seen(release)))

    def _both(self, calls: Iterable[Seen[list[list[str]]]]) -> Calls:
        texts, noise = zip(*calls, strict=True)
        return self._law, texts, noise

    def _halves(self, texts: list[list[str]]) -> list[list[list[str]]]:
        size = len(self._texts)
        return [texts[:size], texts[size:]]

    def _categories(self) -> Calls:
        """Release by PCT2T, every word within the category of its tag."""
        tags: list[str] = []

        def release(privatizer: TextPrivatizer) -> list[list[str]]:
            tag = privatizer.tagged

            def noting(texts: Sequence[str]) -> Any:
                tagged = tag(texts)
                tags.extend(pos for text in tagged for part in text for pos in part.pos)
                return tagged

            privatizer.tagged = noting  # type: ignore[method-assign]
            return _split(privatizer(self._texts))

        with watched() as searches, threadpool_limits(1, "blas"):
            privatizer = self._opened(categories=("all",), keep_identifiers=True)
            _forget(searches, privatizer)
            released = release(privatizer)
        law = Law(self._corpus, ETA, tags)
        return law, [released], [law.noise(searches)]


def _forget(searches: list[Search], privatizer: TextPrivatizer) -> list[Search]:
    """The searches of a release: not those of its statement, nor what was asked before."""
    for asked in (strength.replaced, strength.replaced_names, strength.read):  # by the statement
        asked(privatizer.privatizer)
    for search in searches:
        search.asked.clear()
    return list(searches)


def _split(texts: Sequence[str | None]) -> list[list[str]]:
    return [(text or "").split() for text in texts]


def released(names: Sequence[str] = ()) -> Iterator[tuple[str, list[Check], Law, int]]:
    """Yield ways to release texts, all if none is named.

    Of each: its tests, the law, and the number of calls whose noise is seen.
    """
    with TemporaryDirectory() as folder, _ledger_in(folder):
        for name, way in Paths(Path(folder)).ways().items():
            if name in names or not names:
                law, texts, noise = way()
                yield name, list(law.checks(texts, noise)), law, len(noise)


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
    drawn = [streams.fresh() for _ in range(FEW)]
    numbers = np.concatenate([one.random(FEW) for one in drawn])
    normal = np.concatenate([one.standard_normal(FEW) for one in drawn])
    return [
        Check("the law of its first number", float(kstest(uniform, lambda number: number).pvalue)),
        Check("repeats in calls and processes", repeats(every, 1 / NUMBERS)),
        Check("the bits of its uniform numbers", bits(numbers)),
        Check("repeats of its normal numbers", coarse(normal[:, None])),
    ]


def states() -> float:
    """The greatest number of states, in bits, of which the generators' repeats would be seen."""
    return log((3 * GENERATORS) ** 2 / 2 / REPEATS, 2)
