"""Candidates of membership inference: models asked about them, and shadows tuned on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax

from rapt import paths
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.seeded import SeededCopy, privatizer_of
from rapt.serving.model import Adapted
from rapt.tuning.config import Run
from rapt.tuning.inputs import readable
from rapt.tuning.parallel import train_cell
from rapt.utils import files


def as_written(
    tagged: pa.Table, plain: Sequence[Sequence[str]], privatizer: AnyPrivatizer[Any]
) -> pa.Table:
    """Return labelled texts as they were written, in the columns of a release (docs/data.md).

    Args:
        tagged: the texts.
        plain: the public sequences of plain words: the first stands before each text, as it is.
        privatizer: of the release whose columns they have.
    """
    words, unit = tagged["words"].to_pylist(), privatizer.releases
    columns = {name: tagged[name] for name in ("label", *unit.copied)}
    columns["plain"] = pa.array([plain[0] if plain else []] * len(words), pa.list_(pa.string()))
    lengths = np.array(list(map(len, words)), np.int64)
    columns |= unit.written(map(privatizer.unprotected, words), lengths, privatizer.dimension)
    return pa.table(columns)


def answers(model: Adapted, tagged: pa.Table) -> NDArray[np.float64]:
    """Ask an adapted model about texts `as_written`: probabilities of classes, (n, classes)."""
    privatizer = privatizer_of(asdict(model.contract.statement), "inf")
    asked = as_written(tagged, model.contract.plain, privatizer)
    return model.probabilities(*readable(asked)).numpy()


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
            plain = copy.plain.words if copy.plain else []
            asked = as_written(candidates, plain, copy.privatizer)
            files.write_parquet(paths.seed(folder, copy.k) / "test.parquet", asked)
            like = run(folder, copy.k, folder / "adapters")
            # The attacker holds nothing out.
            runs.append(replace(like, train=like.train.model_copy(update={"held_out": 0.0})))
        trained = train_cell(runs)
    for one in trained:
        if one.checkpoint:
            one.checkpoint.unlink()
    return softmax(np.stack([one.answers["test"] for one in trained]).astype(np.float64), axis=-1)
