"""Release a task: `python -m stages.privatize movies t2t 75 minilm data/private/movies/t2t-75`.

`clean inf` in the place of method and η is the baseline, the words as they are.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rapt import params, paths
from rapt.privacy import seeded
from rapt.privacy.categories import VERBATIM
from rapt.privacy.config import PlainTokens
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.statement import kind, plain_words, statement
from rapt.utils import files
from rapt.utils.progress import bar
from stages import run

# One stream for each text, so that methods and etas are compared on the same noise.
GENERATOR = (
    "Philox, seeded by params.yaml, for experiments: whoever knows the seed can undo it, and "
    "releases of one text by several methods or at several etas share its noise"
)


def main(task: str, method: str, eta: str, embedding: str, out: Path) -> None:
    """Privatize both splits of TASK by METHOD at ETA into OUT, one copy for each seed."""
    p = params.load()
    how, label = p.method(method), p.tasks[task].label
    # Plain tokens serve the tuning alone.
    plain_tokens = how.plain_tokens if label else None
    privatizer = seeded.privatizer(embedding, how.mechanism, how.categories, eta)
    splits = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    with files.atomic(out) as folder:
        folder.mkdir()
        for k in range(p.seeds):
            release = Release(privatizer, task, p.seed, k, plain_tokens)
            release.write(splits, folder / f"seed-{k}")
        facts = statement(
            privatizer,
            eta=eta,
            **_counts(privatizer, splits, p.seeds),
            placeholders={},
            columns=["example_id", "segment", *(["label"] if label else [])],
            spacing="none is released",
            generator=GENERATOR,
            task=task,
            method=method,
            embedding=embedding,
            seeds=p.seeds,
            **_plain_facts(privatizer, plain_tokens),
            labels=label.names if label else None,
        )
        files.write_json(folder / "statement.json", facts)
        (folder / "statement.txt").write_text(plain_words(facts))


def _plain_facts(privatizer: Privatizer, how: PlainTokens | None) -> dict[str, Any]:
    if how is None:
        return {"plain_tokens": None, "vocabulary": None}
    return {
        "plain_tokens": how.model_dump(exclude={"vocabulary"}),
        "vocabulary": len(seeded.plain_vocabulary(privatizer, how.vocabulary)),
    }


def _counts(privatizer: Privatizer, splits: dict[str, pa.Table], copies: int) -> dict[str, Any]:
    """How many words of the texts get noise, and of which kinds the others are.

    Plain tokens do not count: they are public, and no words of a text. Each copy spends anew what
    the longest text spends.
    """
    noise: list[int] = []
    verbatim: Counter[str] = Counter()
    for tagged in splits.values():
        columns = (tagged["words"], tagged["pos"], tagged["identifier"])
        for text in zip(*(column.to_pylist() for column in columns), strict=True):
            stays = [
                kind(word, identifier)
                for word, pos, identifier in zip(*text, strict=True)
                if np.isinf(privatizer.eta) or privatizer.scheme.group_of(pos) == VERBATIM
            ]
            noise.append(len(text[0]) - len(stays))
            verbatim.update(stays)
    return {
        "documents": len(noise),
        "noise": sum(noise),
        "longest": copies * max(noise, default=0),
        "verbatim": verbatim,
    }


class Release:
    """One seed's copy of a data set."""

    def __init__(
        self,
        privatizer: Privatizer,
        task: str,
        seed: int,
        k: int,
        plain_tokens: PlainTokens | None,
    ) -> None:
        """Draw the plain tokens of this seed."""
        self.privatizer, self.task, self.seed, self.k = privatizer, task, seed, k
        self.plain = (
            seeded.PlainTokens(privatizer, k, seed=seed, **plain_tokens.model_dump())
            if plain_tokens
            else None
        )

    def write(self, splits: dict[str, pa.Table], folder: Path) -> None:
        """Write the privatized splits, and the public plain tokens where there are any."""
        for split, tagged in splits.items():
            files.write_parquet(folder / f"{split}.parquet", self._released(tagged, split))
        if self.plain:
            sequences, length = self.plain.targets.shape
            columns = {
                "sequence": np.repeat(np.arange(sequences), length),
                "word": list(chain.from_iterable(self.plain.words)),
                "target": self.plain.targets.ravel(),
            }
            files.write_parquet(folder / "plain.parquet", pa.table(columns))

    def _released(self, tagged: pa.Table, split: str) -> pa.Table:
        """The columns that cross the boundary, and no others."""
        ids = tagged["example_id"].to_pylist()
        columns = {"example_id": tagged["example_id"], "segment": tagged["segment"]}
        words = seeded.texts(self.privatizer, tagged, self.k, self.task, seed=self.seed)
        columns["words"] = _strings(bar(words, f"{self.task} {split}, seed {self.k}", len(ids)))
        if seeded.releases_vectors(self.privatizer):
            columns["vectors"] = self._vectors(tagged)
        if "label" in tagged.column_names and tagged["label"].null_count < len(ids):
            columns["label"] = tagged["label"]
        if self.plain:
            columns["sequence"] = pa.array(self.plain.sequences(ids, self.task), pa.int64())
            copies = self.plain.copies(ids, self.task)
            columns["plain"] = _strings(bar(copies, "plain tokens", len(ids)))
        return pa.table(columns)

    def _vectors(self, tagged: pa.Table) -> pa.Array:
        """The vectors that the words are the nearest to, by the same noise."""
        lengths = pc.list_value_length(tagged["words"]).to_numpy().astype(np.int64)
        every = np.empty((lengths.sum(), self.privatizer.table.dimension), np.float32)
        released = seeded.vectors(self.privatizer, tagged, self.k, self.task, seed=self.seed)
        for end, vectors in zip(
            lengths.cumsum(), bar(released, "vectors", len(lengths)), strict=True
        ):
            every[end - len(vectors) : end] = vectors
        return files.column_of_vectors(every, lengths)


def _strings(lists: Iterable[list[str]]) -> pa.Array:
    return pa.array(list(lists), pa.list_(pa.string()))


if __name__ == "__main__":
    run(main)
