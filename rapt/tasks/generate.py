"""Kind generate: write a text from triples, or from another text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from rapt.data import triples
from rapt.param_types import Protect
from rapt.tasks.base import Expectations, Scored, Task
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rapt.data.sources import Split
    from rapt.privacy.fates import Word
    from rapt.privacy.restoring import Map
    from rapt.release.text import TextPrivatizer


class Generate(Task):
    """Write a text from a list of triples, SUBJECT | PREDICATE | OBJECT each, or from a text."""

    kind: Literal["generate"]
    text: str = Field(
        "text",
        description="column of the source: a text, or a list of triples, SUBJECT | PREDICATE | "
        "OBJECT each",
    )
    references: str = Field(
        description="column of the list of texts that were written. Each of a training row is "
        "tuned on; what is written for a test row is scored against all",
    )
    group: str | None = Field(
        None, description="column whose values part the test rows in the scores"
    )
    protect: Protect = Field(
        "words",
        description="what gets noise, as far as the method gives it. words: all. entities: the "
        "triples' subjects and objects, also where the texts mention them",
    )

    compared: ClassVar = ("text",)  # what was written is no part of it
    keeps_spacing: ClassVar = True
    scored_apart: ClassVar = True

    @property
    def shared_noise(self) -> Protect:
        """Which words of an example share their noise with equal ones."""
        return self.protect

    def read(self, split: Split, key: str) -> dict[str, Sequence[Any]]:
        """Return the source of each row, the texts that were written of it, and its group."""
        from rapt.data import read

        def column(name: str, where: str) -> Sequence[Any]:
            return read.column(split.columns, name, f"{key}.{where}", split.where)

        texts = [_source(value) for value in column(self.text, "text")]
        each = column(self.references, "references")
        references = [list(written) if _is_texts(written) else [] for written in each]
        groups: list[str | None] = [None] * len(texts)
        if self.group:
            groups = [_group(self.group, value) for value in column(self.group, "group")]
        checks = {
            "text": ([text is None for text in texts], "a text, or a list of triples"),
            "references": ([not each for each in references], "a list of one text or more"),
        }
        if self.protect == "entities":
            unparted = [not triples.are_in(text) for text in texts]
            checks["protect"] = (unparted, "SUBJECT | PREDICATE | OBJECT in each")
        for name, (wrong, expected) in checks.items():
            if bad := sum(wrong):
                raise RaptError(
                    f"{split.where}: {key}.{name}: got something else in {bad} of {len(texts)} "
                    f"rows, expected {expected}. Correct them."
                )
        return {"text": texts, "references": references, "group": groups}

    def examples(self, frame: pd.DataFrame, split: str) -> pd.DataFrame:
        """Return a training row for each text that was written; of the test split, one a source."""
        if split == "test":
            return frame
        return frame.assign(text_pair=frame["references"]).explode("text_pair")

    def columns(self, frame: pd.DataFrame) -> dict[str, pa.Array]:
        """Return the references, and the groups."""
        import pyarrow as pa

        references = pa.array(frame["references"], pa.list_(pa.string()))
        return {"references": references, "group": pa.array(frame["group"], pa.string())}

    def expected(self, expect: Expectations, split: str) -> list[Any]:
        """Return that texts to write are there, and in training rows are texts."""
        name = "texts to write"
        texts = expect.texts("text_pair", name) if split == "train" else []
        return [*expect.there("references", name), *texts]

    def gaps(self, mentions: Mapping[str, int] | None) -> list[str]:
        """Return what a release of sources and texts does not cover."""
        gaps = [
            "The signs that part triples.",
            "A source is released once with each of its texts, with fresh noise: its losses add "
            "up, and they are counted together.",
        ]
        if self.protect == "entities":
            gaps += [
                "Words of a source that belong to no subject or object, and words of a text that "
                "belong to no mention of one.",
                "Which words of an example are the same: they are released as the same word.",
            ]
        if mentions:
            some, none, every = mentions["some"], mentions["none"], sum(mentions.values())
            gaps.append(
                f"Of {every} entities the texts mention {some} in part and {none} in other words "
                "or not at all. There only words of the entity, words that begin alike, names and "
                "numbers are protected."
            )
        return gaps

    @classmethod
    def released(
        cls, privatizer: TextPrivatizer, texts: Sequence[str], protect: Protect, tagger: str
    ) -> tuple[list[list[Word]], list[Map]]:
        """Privatize sources, with maps of their entities where these are protected.

        Raises:
            RaptError: a source is too long, or has words that would not be protected.
        """
        from functools import reduce

        from rapt.privacy.restoring import Map
        from rapt.release.ledger import NOWHERE
        from rapt.release.text import PIECE, tagged_pieces
        from rapt.text.mentions import PROTECTED
        from rapt.text.tagged import NOTHING, Tagged
        from rapt.text.tagging import Tagger

        sources = [triples.spelled(one) if triples.are_in(one) else one for one in texts]
        for number, source in enumerate(sources, start=1):
            if len(source) > PIECE:
                raise RaptError(
                    f"text {number}: got {len(source)} characters, expected at most {PIECE}."
                )
            if protect == "entities" and not triples.are_in(source):
                raise RaptError(
                    f"text {number}: got a text that is not all triples, expected SUBJECT | "
                    "PREDICATE | OBJECT, with && between two: only their entities are protected."
                )
        privatizer.check(sources)
        tagged = [list(each) for each in tagged_pieces(Tagger(tagger), sources)]
        released = privatizer.release_tagged(
            sources,
            tagged,
            account=NOWHERE,
            shared=lambda part: PROTECTED[protect](part, NOTHING).noise,
        )
        if protect != "entities":
            return released, []
        return released, [
            Map(reduce(Tagged.then, parts, NOTHING), [word.released for word in words])
            for parts, words in zip(tagged, released, strict=True)
        ]

    def alone(self, name: str, embedding: str, path: Path) -> Scored:
        """Score handing over the source itself, without what parts its triples."""
        from rapt import paths
        from rapt.analysis import written
        from rapt.results import predictions
        from rapt.utils import files

        raw = files.read_parquet(paths.raw(name) / "test.parquet")
        texts = [triples.words_alone(source) for source in raw["text"].to_pylist()]
        references, groups = (raw[column].to_pylist() for column in ("references", "group"))
        metrics = written.by_group(texts, references, groups)
        if any(len(each) > 1 for each in references):
            metrics["bleu_human"] = written.one_against_the_others(references)
        predictions.write_texts(path, raw, [texts])
        interval = written.interval([texts], references)
        return Scored([metrics], {"bleu": interval}, {"test": len(raw)}, {})

    def scored(self, name: str, release: Path, answers: Path, path: Path) -> Scored:
        """Put back the entities of every text, and score it against the test references."""
        from rapt import paths
        from rapt.analysis import written
        from rapt.privacy.restoring import maps
        from rapt.results import predictions
        from rapt.utils import files

        is_protected = files.read_json(paths.statement(release))["protection"] != "unprotected"
        restores = self.protect == "entities" and is_protected
        raw = files.read_parquet(paths.raw(name) / "test.parquet")
        tagged = files.read_parquet(paths.tagged(name) / "test.parquet")
        references, groups = (raw[column].to_pylist() for column in ("references", "group"))
        wanted = [triples.entities(text) for text in raw["text"].to_pylist()]
        restored, seeds = [], []
        for k, texts in enumerate(predictions.read_texts(answers)):
            collisions = {}
            if restores:
                secrets = maps(tagged, files.read_parquet(paths.seed(release, k) / "test.parquet"))
                texts = [secret.restore(text) for secret, text in zip(secrets, texts, strict=True)]
                collisions = {
                    "collisions": sum(secret.collisions for secret in secrets) / len(secrets)
                }
            metrics = written.by_group(texts, references, groups) | collisions
            if any(wanted):
                metrics["entity_recall"] = written.recall(texts, wanted)
            restored.append(texts)
            seeds.append(metrics)
        predictions.write_texts(path, raw, restored)
        interval = written.interval(restored, references)
        return Scored(seeds, {"bleu": interval}, {"test": len(raw)}, {})


def _group(column: str, value: Any) -> str | None:
    """Name the group of a row; of a column of truth values by the column."""
    if isinstance(value, bool):
        return column if value else f"not-{column}"
    return None if value is None else str(value)


def _source(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return triples.source(value) if _is_texts(value) else None


def _is_texts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(text, str) and text.strip() for text in value)
    )
