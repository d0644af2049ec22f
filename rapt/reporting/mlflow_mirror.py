"""The MLflow mirror of the cells: their JSON is the source, and `sync` updates MLflow from it.

Each experiment has a parent run, found by the hash of its params, and below it a run for each tuned
cell. A run holds the cell's accuracy and the attacks on it and its release, so that MLflow's charts
show the trade-off. An attack on a release that nothing was tuned on has a run of its own. No run
holds text of a data set. `mlflow` is imported only when needed, as rapt works without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from rapt import paths
from rapt.grid import ATTACKED, TUNED
from rapt.params import Params
from rapt.reporting import tables
from rapt.reporting.provenance import sidecar
from rapt.reporting.text import flat
from rapt.results import cells
from rapt.results.reader import Cell, Results, load, release
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.process import no_telemetry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Param, Run

EXPERIMENT = "rapt"
# Tags that identify a run.
SWEEP, KIND, CELL, DIGEST = "rapt.sweep", "rapt.kind", "rapt.cell", "rapt.digest"


def sync(params: Params) -> str:
    """Update MLflow from the cells: log missing and changed ones, without duplicates.

    Returns:
        the path of the parent run's page, below MLflow's address.
    """
    results = load(params)
    records = _records(results)
    with store() as client:
        sweep = Sweep(client, results)
        for one in records:
            sweep.log(one)
        files.write_json(_synced(), _state(params, records))
        return f"#/experiments/{sweep.experiment}/runs/{sweep.parent}"


def is_synced(params: Params) -> bool:
    """Whether the last `sync` was of these cells, by their digests, without importing MLflow.

    Only `sync` itself notices runs that were deleted in MLflow since.
    """
    if not _synced().exists() or not (files.home() / "mlflow.db").exists():
        return False
    return bool(files.read_json(_synced()) == _state(params, _records(load(params))))


def _synced() -> Path:
    return files.home() / ".rapt/mlflow.json"


def _state(params: Params, records: list[Record]) -> list[str]:
    return [sweep_id(params), *(one.digest for one in records)]


def _records(results: Results) -> list[Record]:
    """Build the records of the tuned cells, and of the attacks that belong to none of them."""
    tuned, attacks = (
        [cell for kind in kinds for cell in results.of(kind)] for kinds in (TUNED, ATTACKED)
    )
    beside = {attack.plan.path for cell in tuned for attack in _attacks(results, cell).values()}
    alone = [cell for cell in attacks if cell.plan.path not in beside]
    return [record(results, cell) for cell in [*tuned, *alone] if cell.content]


def sweep_id(params: Params) -> str:
    """Return an experiment's identity: the hash of its validated params."""
    return _hash(params.model_dump(mode="json"))


@dataclass(frozen=True)
class Record:
    """The content of a cell's run in MLflow."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    # Name, value, step.
    metrics: list[tuple[str, float, int]]
    # Split → sha256 of the raw data.
    data: dict[str, str]
    # Name in MLflow → path.
    artifacts: dict[str, Path]
    # Start and end in milliseconds, if known.
    times: tuple[int, int] | None

    @property
    def digest(self) -> str:
        """The hash of the content; a run with an equal digest need not be logged again."""
        artifacts = {name: files.sha256(path) for name, path in self.artifacts.items()}
        return _hash(asdict(self) | {"artifacts": artifacts})


def record(results: Results, cell: Cell) -> Record:
    """Build the MLflow record of a cell that has run."""
    p, factors, name = results.params, cell.factors, cell.plan.cell
    eta = results.eta_found(factors)
    varying = sidecar(cell.plan.kind, name)
    places = {
        "statement.json": paths.PRIVATE / release(factors) / "statement.json",
        "adapter": paths.adapter(name),
    }
    raw = results.raw_gates[factors["task"]]
    return Record(
        name=name,
        tags={
            KIND: cell.plan.kind,
            CELL: name,
            "protection": cell.protection,
            **{f"rapt.{key}": str(value) for key, value in varying.items() if key != "seconds"},
            **_doubts(results, cell),
        },
        params=_params(p, cell) | ({"eta_found": eta} if eta else {}),
        metrics=_metrics(results, cell, varying),
        data={
            f"{factors['task']} {split}": d for split, d in (raw or {}).get("sha256", {}).items()
        },
        artifacts={name: path for name, path in places.items() if path.exists()},
        times=_times(varying),
    )


def _params(p: Params, cell: Cell) -> dict[str, str]:
    """Return the cell's factors and, flattened, their sections of params.yaml."""
    factors = cell.factors
    sections: dict[str, Mapping[str, BaseModel]] = {
        "method": p.methods,
        "tuner": p.tuners,
        "denoiser": p.denoisers,
        "attack": p.attacks,
    }
    said = {name: of[factors[name]] for name, of in sections.items() if factors.get(name) in of}
    if cell.plan.kind in TUNED:
        said["train"] = p.train
    models: dict[str, Mapping[str, Any]] = {"backbone": p.backbones, "embedding": p.embeddings}
    read = {name: of[factors[name]].model for name, of in models.items() if name in factors}
    found = factors | flat("model", read)
    for name, section in said.items():
        found |= flat(name, section.model_dump())
    return found | {"seed": str(p.seed), "seeds": str(p.seeds)}


def _metrics(
    results: Results, cell: Cell, varying: Mapping[str, Any]
) -> list[tuple[str, float, int]]:
    """Return the cell's figures, those of the attacks on it, and the curves of each seed."""
    assert cell.content
    found: dict[str, float | None] = _summary("", tables.shown(results, cell))
    found |= {f"floor_{name}": value for name, value in cell.content.baselines.items()}
    if cell.plan.kind in TUNED:
        for prefix, attack in _attacks(results, cell).items():
            found |= _summary(prefix, tables.shown(results, attack))
    found["replaced_share"] = results.replaced(cell.factors)
    found["seconds"] = varying.get("seconds")
    single = [(name, value, 0) for name, value in sorted(found.items()) if value is not None]
    curves = [
        (f"seed-{seed.seed}/{name}", value, epoch)
        for seed in cell.content.seeds
        for name, values in sorted(seed.curves.items())
        for epoch, value in enumerate(values, start=1)
    ]
    return single + curves


def _doubts(results: Results, cell: Cell) -> dict[str, str]:
    """Return tags that list the metrics of broken and of unproven attacks.

    A run has the figures of an unproven attack, but not of a broken one (`tables.shown`).
    """
    attacks = _attacks(results, cell) if cell.plan.kind in TUNED else {"": cell}
    found: dict[str, list[str]] = {}
    for prefix, attack in attacks.items():
        for (_, metric), doubt in tables.doubts(results, [attack]).items():
            if doubt:
                found.setdefault(f"rapt.{doubt}", []).append(f"{prefix}{metric}")
    return {tag: ", ".join(names) for tag, names in found.items()}


def _attacks(results: Results, cell: Cell) -> dict[str, Cell]:
    """Find the attacks on a cell's release and on its adapters, by their prefix.

    They are of the cell's task, but inferences of any task. If the release was not attacked, the
    attacks on the same words released by another method count, as in the report. Otherwise RAPT
    would seem more private for want of attacks.
    """
    every = [
        one
        for method in tables.alike(results.params, cell.factors["method"])
        for one in _on_releases(results, cell.factors | {"method": method})
    ]
    every += [(f"{a.factors['attack']}/", a) for a in results.of("membership", **cell.factors)]
    found: dict[str, Cell] = {}
    for prefix, attack in every:
        if attack.content:
            found.setdefault(prefix, attack)
    return found


def _on_releases(results: Results, factors: Mapping[str, str]) -> Iterator[tuple[str, Cell]]:
    same = {key: factors[key] for key in ("method", "eta", "embedding")}
    task = {"task": factors["task"], **same}
    for attack in [*results.of("invert", **task), *results.of("recognize", **task)]:
        yield f"{attack.factors['attack']}/", attack
    for attack in results.of("infer", **same):
        yield f"{attack.factors['attack']}/{attack.factors['task']}/", attack


def _summary(prefix: str, metrics: Mapping[str, cells.Metric]) -> dict[str, float | None]:
    """Return each metric's mean under its name, with its sd and, if known, its interval."""
    return {
        f"{prefix}{name}{suffix}": getattr(metric, part)
        for name, metric in metrics.items()
        for suffix, part in (("", "mean"), ("_sd", "sd"), ("_low", "low"), ("_high", "high"))
    }


def _times(varying: Mapping[str, Any]) -> tuple[int, int] | None:
    if not varying:
        return None
    end = datetime.fromisoformat(varying["finished"]).timestamp()
    return int(1000 * (end - varying["seconds"])), int(1000 * end)


@contextmanager
def store() -> Iterator[MlflowClient]:
    """Yield a client of the main workspace's database, locked against concurrent processes."""
    no_telemetry()
    from filelock import FileLock

    home = files.home()
    (home / ".rapt").mkdir(exist_ok=True)
    with FileLock(home / ".rapt/mlflow.lock"):
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        uri = f"sqlite:///{home}/mlflow.db"
        yield MlflowClient(tracking_uri=uri, registry_uri=uri)


class Sweep:
    """An experiment's runs: the parent, and a child for each cell."""

    def __init__(self, client: MlflowClient, results: Results) -> None:
        """Find the parent run and its children, or start the parent."""
        self.client, self.id = client, sweep_id(results.params)
        self.experiment = experiment_id(client)
        found = client.search_runs(
            [self.experiment], f"tags.`{SWEEP}` = '{self.id}'", max_results=10_000
        )
        parents = [run for run in found if CELL not in run.data.tags]
        self.children = [run for run in found if CELL in run.data.tags]
        self.parent = parents[0].info.run_id if parents else self._start(results)

    def log(self, record: Record) -> None:
        """Ensure that MLflow has exactly one run of this cell, with this content.

        A changed run is replaced, as MLflow can neither change a param nor remove a metric.
        """
        digest = record.digest
        held = [run for run in self.children if _is(run, record)]
        current = next((run for run in held if run.data.tags.get(DIGEST) == digest), None)
        if current is None:
            self._write(record, digest)
        for run in held:
            if run is not current:
                self._remove(run.info.run_id)

    def _start(self, results: Results) -> str:
        run_id = self.client.create_run(
            self.experiment, tags={SWEEP: self.id}, run_name=f"sweep {self.id[:8]}"
        ).info.run_id
        self.client.log_batch(
            run_id, params=_entities(flat("sweep", results.params.sweep.model_dump()))
        )
        self.client.log_text(run_id, results.params_text, "params.yaml")
        self.client.set_terminated(run_id)
        return run_id

    def _write(self, record: Record, digest: str) -> None:
        from mlflow.entities import Metric
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        start, end = record.times or (None, None)
        info = self.client.create_run(
            self.experiment,
            start_time=start,
            # The parent is set explicitly: MLFLOW_RUN_ID may name an unrelated run.
            tags={SWEEP: self.id, MLFLOW_PARENT_RUN_ID: self.parent, **record.tags},
            run_name=record.name,
        ).info
        self.client.log_batch(
            info.run_id,
            [Metric(name, value, info.start_time, step) for name, value, step in record.metrics],
            _entities(record.params),
        )
        self.client.log_inputs(info.run_id, datasets=_datasets(record.data))
        for name, path in record.artifacts.items():
            if path.is_dir():
                self.client.log_artifacts(info.run_id, str(path), name)
            else:
                self.client.log_artifact(info.run_id, str(path))
        self.client.set_terminated(info.run_id, end_time=end)
        # Last: an incomplete run has no digest, and is replaced.
        self.client.set_tag(info.run_id, DIGEST, digest)

    def _remove(self, run_id: str) -> None:
        """Move a run to MLflow's trash and delete its artifacts, which DVC's cache holds too."""
        self.client.delete_run(run_id)
        shutil.rmtree(files.home() / "mlartifacts" / run_id, ignore_errors=True)


def _entities(params: Mapping[str, str]) -> list[Param]:
    from mlflow.entities import Param

    return [Param(name, value) for name, value in params.items()]


def _datasets(digests: Mapping[str, str]) -> list[DatasetInput]:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return [
        DatasetInput(
            # MLflow keeps 36 characters of a digest.
            Dataset(name, sha256[:36], source_type="rapt", source=json.dumps({"sha256": sha256})),
            [InputTag("mlflow.data.context", name.split()[-1])],
        )
        for name, sha256 in digests.items()
    ]


def _is(run: Run, record: Record) -> bool:
    tags = run.data.tags
    return (tags[KIND], tags[CELL]) == (record.tags[KIND], record.tags[CELL])


def experiment_id(client: MlflowClient) -> str:
    """Return the experiment's id, and create it with artifacts in the main workspace if needed."""
    location = (files.home() / "mlartifacts").as_uri()
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return client.create_experiment(EXPERIMENT, artifact_location=location)
    if experiment.artifact_location != location:
        raise RaptError(
            "mlflow.db: got the database of another folder, expected one of this folder. Remove "
            "mlflow.db and mlartifacts, then run rapt sync."
        )
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
