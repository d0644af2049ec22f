"""Candidates of membership inference: models asked about them, and shadows tuned on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from rapt import paths
from rapt.privacy.seeded import SeededCopy
from rapt.serving.model import Adapted
from rapt.text.table import EmbeddingTable
from rapt.tuning.config import Run
from rapt.tuning.parallel import train_cell
from rapt.utils import files


def as_written(
    tagged: pa.Table, plain: Sequence[Sequence[str]], table: EmbeddingTable | None
) -> pa.Table:
    """Return labelled texts as they were written, in the columns of a release (docs/data.md).

    Args:
        tagged: the texts.
        plain: the public sequences of plain words: the first stands before each text, as it is.
        table: gives the words' own vectors to a model that takes vectors; else None.
    """
    before = [plain[0] if plain else []] * len(tagged)
    columns = {name: tagged[name] for name in ("words", "segment", "label")}
    columns["plain"] = pa.array(before, pa.list_(pa.string()))
    if table:
        words = tagged["words"].to_pylist()
        vectors = table.embed(list(chain.from_iterable(words)))
        columns["vectors"] = files.column_of_vectors(vectors, np.array(list(map(len, words))))
    return pa.table(columns)


def answers(model: Adapted, tagged: pa.Table) -> NDArray[np.float64]:
    """Ask an adapted model about texts `as_written`: probabilities of classes, (n, classes)."""
    statement = model.contract.statement
    table = EmbeddingTable(paths.table(statement.embedding)) if statement.vectors else None
    asked = as_written(tagged, model.contract.plain, table)
    vectors = torch.tensor(files.vectors_of_column(asked["vectors"])) if table else None
    columns = asked.select(["words", "segment", "label", "plain"]).to_pydict()
    return model.probabilities(columns, vectors).numpy()


def shadow_answers(
    tuned_on: NDArray[np.bool_],
    candidates: pa.Table,
    copies: Sequence[SeededCopy],
    run: Callable[[Path, int, Path], Run],
    statement: Mapping[str, Any],
) -> NDArray[np.float64]:
    """Tune a shadow on each set of candidates, and ask it about all of them as they were written.

    Args:
        tuned_on: the sets, (s, n).
        candidates: n labelled texts, tagged.
        copies: how each shadow's texts are privatized, with noise of its own.
        run: returns a run of the attacked cell, given release, copy's number and adapters' folder.
        statement: of the attacked release, as far as tuning reads it.

    Returns:
        Probabilities of the classes, float64 (s, n, classes).
    """
    files.SCRATCH.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=files.SCRATCH) as scratch:
        folder, runs = Path(scratch), []
        files.write_json(paths.statement(folder), statement)
        for copy, chosen in zip(copies, tuned_on, strict=True):
            copy.write({"train": candidates.filter(chosen)}, paths.seed(folder, copy.k))
            privatizer = copy.privatizer
            asked = as_written(
                candidates,
                copy.plain.words if copy.plain else [],
                privatizer.table if privatizer.mechanism.releases_vectors else None,
            )
            files.write_parquet(paths.seed(folder, copy.k) / "test.parquet", asked)
            like = run(folder, copy.k, folder / "adapters")
            # The attacker holds nothing out.
            runs.append(replace(like, train=like.train.model_copy(update={"held_out": 0.0})))
        trained = train_cell(runs)
    for one in trained:
        if one.checkpoint:
            one.checkpoint.unlink()
    return softmax(np.stack([one.answers["test"] for one in trained]).astype(np.float64), axis=-1)
