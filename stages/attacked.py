"""Shared by the attacks on releases: what is attacked, and the cell of what the attack finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rapt import grid, params, paths
from rapt.attacks.base import Attack, Release
from rapt.attacks.scores import Scores, intervals, successes
from rapt.results import cells, predictions
from rapt.utils import files
from rapt.utils.progress import bar


@dataclass(frozen=True)
class Attacked:
    """A release under attack.

    Attributes:
        params: the whole of params.yaml.
        attack: the attack with its parameters.
        folder: of the release.
        statement: of the release.
        cell: what the attack finds.
    """

    params: params.Params
    attack: Attack
    folder: Path
    statement: Mapping[str, Any]
    cell: cells.Cell

    @classmethod
    def release(cls, kind: str, attack: str, task: str, method: str, eta: str) -> Attacked:
        """Open the release of TASK by METHOD at ETA, for an attack and its cell of a kind."""
        p = params.load()
        name = grid.released(method, eta)
        folder = paths.release(task, name)
        statement = files.read_json(paths.statement(folder))
        factors = {"attack": attack, "task": task, "method": method, "eta": eta}
        factors["embedding"] = statement["embedding"]
        cell = cells.Cell(kind, f"{attack}-{task}-{name}", factors)
        return cls(p, p.attacks[attack], folder, statement, cell)

    def tagged(self, split: str, task: str | None = None) -> pa.Table:
        """Read a split as it was before the release; of another task if it is named."""
        folder = paths.tagged(task or self.cell.factors["task"])
        return files.read_parquet(folder / f"{split}.parquet")

    def copy(self, k: int, split: str) -> Release:
        """Read a split as seed k released it."""
        return Release.read(paths.seed(self.folder, k) / f"{split}.parquet")

    def seeds(self, step: int = 1) -> Iterable[int]:
        """Show the progress over the seeds, or over the first of each `step` seeds."""
        seeds = range(0, self.params.seeds - step + 1, step)
        return bar(seeds, self.cell.factors["attack"], len(seeds))

    def write(
        self,
        scores: Mapping[int, Scores],
        examples: Sequence[str],
        baselines: Mapping[str, float],
        counts: Mapping[str, int],
        upper_bounds: Mapping[str, float] | None = None,
    ) -> None:
        """Write the cell by the scores of each seed, and beside it what each text shows.

        Args:
            scores: of each seed.
            examples: the ids of what the scores count, texts or authors.
            baselines: as in `CellResult`.
            counts: as in `CellResult`.
            upper_bounds: as in `CellResult`.
        """
        seeds = [cells.SeedResult(seed=k, metrics=one.metrics()) for k, one in scores.items()]
        every = list(scores.values())
        path = paths.predictions(self.cell.kind, self.cell.name)
        predictions.write(path, successes(every, examples))
        self.cell.write(
            protection=self.statement["protection"],
            seeds=seeds,
            intervals=intervals(every),
            baselines=baselines,
            counts=counts,
            upper_bounds=upper_bounds,
        )
