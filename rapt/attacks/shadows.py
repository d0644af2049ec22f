"""Shadow models: the attacker tunes as the provider does, on texts that he chose himself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax

from rapt import paths
from rapt.attacks.membership_scores import as_written
from rapt.privacy.seeded import Copy
from rapt.tuning.config import Run
from rapt.tuning.parallel import train_cell
from rapt.utils import files


def answers(
    tuned_on: NDArray[np.bool_],
    candidates: pa.Table,
    copies: Sequence[Copy],
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
    return softmax(np.stack([one.logits["test"] for one in trained]).astype(np.float64), axis=-1)
