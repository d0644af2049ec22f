"""The MLflow mirror of the cells: their JSON is the truth, and `sync` makes MLflow follow it.

A parent run for each experiment, found by the hash of its params; below it a run for each cell that
was tuned. Beside its accuracy stand the attacks on it and on its release, so that MLflow's charts
show the trade-off; an attack on a release that nothing was tuned on has a run of its own. Never
text of a data set. `mlflow` is imported when needed: rapt does without.
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
from rapt.reporting.text import flat
from rapt.results.reader import Cell, Results, load, release
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.process import no_telemetry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "rapt"
# Tags by which a run is found again.
SWEEP, KIND, CELL, DIGEST = "rapt.sweep", "rapt.kind", "rapt.cell", "rapt.digest"
# What one call of log_batch takes.
MOST_METRICS, MOST_PARAMS = 1000, 100


def sync(params: Params) -> str:
    """Bring MLflow up to the cells: what is missing or changed is logged, nothing twice.

    Returns:
        where MLflow's pages show the parent run, below their address.
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
    """Whether the last `sync` was of these cells, by their digests and without MLflow's imports.

    What somebody deleted in MLflow since, only `sync` sees.
    """
    if not _synced().exists() or not (files.home() / "mlflow.db").exists():
        return False
    return bool(files.read_json(_synced()) == _state(params, _records(load(params))))


def _synced() -> Path:
    return files.home() / ".rapt/mlflow.json"


def _state(params: Params, records: list[Record]) -> list[str]:
    return [sweep_id(params), *(one.digest for one in records)]


def _records(results: Results) -> list[Record]:
    """What MLflow is to hold: the tuned cells, and the attacks that stand beside none of them."""
    tuned, attacks = (
        [cell for kind in kinds for cell in results.of(kind)] for kinds in (TUNED, ATTACKED)
    )
    beside = {attack.plan.path for cell in tuned for attack in _attacks(results, cell).values()}
    alone = [cell for cell in attacks if cell.plan.path not in beside]
    return [record(results, cell) for cell in [*tuned, *alone] if cell.content]


def sweep_id(params: Params) -> str:
    """The identity of an experiment: the hash of its validated params."""
    return _hash(params.model_dump(mode="json"))


@dataclass(frozen=True)
class Record:
    """Everything that a cell's run holds in MLflow."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    # Name, value, step.
    metrics: list[tuple[str, float, int]]
    # Split → sha256 of the raw data.
    data: dict[str, str]
    # Name in MLflow → where it lies.
    artifacts: dict[str, Path]
    # Start and end in milliseconds, where known.
    times: tuple[int, int] | None

    @property
    def digest(self) -> str:
        """Of the content: an equal digest needs no logging."""
        artifacts = {name: files.sha256(path) for name, path in self.artifacts.items()}
        return _hash(asdict(self) | {"artifacts": artifacts})


def record(results: Results, cell: Cell) -> Record:
    """What MLflow is to hold of a cell that has run."""
    p, factors, name = results.params, cell.factors, cell.plan.cell
    varying = _sidecar(cell)
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
        params=_params(p, cell),
        metrics=_metrics(results, cell, varying),
        data={
            f"{factors['task']} {split}": d for split, d in (raw or {}).get("sha256", {}).items()
        },
        artifacts={name: path for name, path in places.items() if path.exists()},
        times=_times(varying),
    )


def _params(p: Params, cell: Cell) -> dict[str, str]:
    """The cell's factors, and what params.yaml says of each."""
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
    """The cell's figures, those of the attacks on it, and the curves of each seed."""
    content = cell.content or {}
    found: dict[str, float | None] = _summary("", tables.shown(results, cell))
    found |= {f"floor_{name}": value for name, value in content["floors"].items()}
    if cell.plan.kind in TUNED:
        for prefix, attack in _attacks(results, cell).items():
            found |= _summary(prefix, tables.shown(results, attack))
    found["replaced_share"] = results.replaced(cell.factors)
    found["seconds"] = varying.get("seconds")
    single = [(name, value, 0) for name, value in sorted(found.items()) if value is not None]
    curves = [
        (f"seed-{seed['seed']}/{name}", value, epoch)
        for seed in content["seeds"]
        for name, values in sorted(seed["curves"].items())
        for epoch, value in enumerate(values, start=1)
    ]
    return single + curves


def _doubts(results: Results, cell: Cell) -> dict[str, str]:
    """What a run's attacks are after where they are broken, or unproven, as tags.

    Of a broken one the run has no figure (`tables.shown`), of an unproven one it has.
    """
    attacks = _attacks(results, cell) if cell.plan.kind in TUNED else {"": cell}
    found: dict[str, list[str]] = {}
    for prefix, attack in attacks.items():
        for (_, metric), doubt in tables.doubts(results, [attack]).items():
            if doubt:
                found.setdefault(f"rapt.{doubt}", []).append(f"{prefix}{metric}")
    return {tag: ", ".join(names) for tag, names in found.items()}


def _attacks(results: Results, cell: Cell) -> dict[str, Cell]:
    """The attacks on a release like this cell's, and on what this cell tuned, by their prefix.

    Of its task, but inferences of any. On a release of a method that privatizes alike where there
    is none on its own, as in the report: RAPT is not the more private for fewer attacks.
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


def _summary(prefix: str, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Each metric's mean under its name, beside it its sd and where known its interval."""
    return {
        f"{prefix}{name}{suffix}": metric.get(part)
        for name, metric in metrics.items()
        for suffix, part in (("", "mean"), ("_sd", "sd"), ("_low", "low"), ("_high", "high"))
    }


def _sidecar(cell: Cell) -> dict[str, Any]:
    """What varies between equal runs: duration, device; empty where it is not known."""
    path = files.home() / ".rapt/runs" / cell.plan.kind / f"{cell.plan.cell}.json"
    return files.read_json(path) if path.is_file() else {}


def _times(varying: Mapping[str, Any]) -> tuple[int, int] | None:
    if not varying:
        return None
    end = datetime.fromisoformat(varying["finished"]).timestamp()
    return int(1000 * (end - varying["seconds"])), int(1000 * end)


@contextmanager
def store() -> Iterator[MlflowClient]:
    """A client of the main workspace's database, alone: together, processes would break it."""
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
    """An experiment's runs: the parent, and the child of each cell."""

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
        """Make MLflow hold one run of this cell, with this content.

        A run that changed is replaced: MLflow can neither change a param nor take a metric back.
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
        swept = flat("sweep", results.params.sweep.model_dump())
        for name, value in swept.items():
            self.client.log_param(run_id, name, value)
        self.client.log_text(run_id, results.params_text, "params.yaml")
        self.client.set_terminated(run_id)
        return run_id

    def _write(self, record: Record, digest: str) -> None:
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        start, end = record.times or (None, None)
        info = self.client.create_run(
            self.experiment,
            start_time=start,
            # The parent is named here: whatever MLFLOW_RUN_ID says is another's.
            tags={SWEEP: self.id, MLFLOW_PARENT_RUN_ID: self.parent, **record.tags},
            run_name=record.name,
        ).info
        self._write_values(info.run_id, record, info.start_time)
        for name, path in record.artifacts.items():
            if path.is_dir():
                self.client.log_artifacts(info.run_id, str(path), name)
            else:
                self.client.log_artifact(info.run_id, str(path))
        self.client.set_terminated(info.run_id, end_time=end)
        # Last: a run that broke off carries no digest, and is replaced.
        self.client.set_tag(info.run_id, DIGEST, digest)

    def _write_values(self, run_id: str, record: Record, time: int) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

        params = [Param(name, value) for name, value in record.params.items()]
        metrics = [Metric(name, value, time, step) for name, value, step in record.metrics]
        for start in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(run_id, params=params[start : start + MOST_PARAMS])
        for start in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(run_id, metrics=metrics[start : start + MOST_METRICS])
        datasets = [
            DatasetInput(
                # MLflow keeps 36 characters of a digest.
                Dataset(
                    name, sha256[:36], source_type="rapt", source=json.dumps({"sha256": sha256})
                ),
                [InputTag("mlflow.data.context", name.split()[-1])],
            )
            for name, sha256 in record.data.items()
        ]
        self.client.log_inputs(run_id, datasets=datasets)

    def _remove(self, run_id: str) -> None:
        """To MLflow's trash, without the artifacts: those of a cell are in DVC's cache."""
        self.client.delete_run(run_id)
        shutil.rmtree(files.home() / "mlartifacts" / run_id, ignore_errors=True)


def _is(run: Run, record: Record) -> bool:
    tags = run.data.tags
    return (tags[KIND], tags[CELL]) == (record.tags[KIND], record.tags[CELL])


def experiment_id(client: MlflowClient) -> str:
    """The experiment's id; its artifacts lie in the main workspace, wherever a stage runs."""
    location = (files.home() / "mlartifacts").as_uri()
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return client.create_experiment(EXPERIMENT, artifact_location=location)
    if experiment.artifact_location != location:
        raise RaptError(
            "mlflow.db: made in another folder; remove mlflow.db and mlartifacts, then rapt sync"
        )
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
