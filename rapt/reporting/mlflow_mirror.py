"""The MLflow mirror of the cells: their JSON is the source, and `sync` updates MLflow from it.

Each experiment has a parent run, found by the hash of its params, and below it a run for each cell
that was tuned, or learnt from public labels. A run holds the cell's accuracy and the attacks on it
and its release, so that MLflow's charts show the trade-off. An attack on a release that nothing was
tuned on has a run of its own. No run holds text of a data set. `mlflow` is imported only when
needed, as rapt works without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from filelock import FileLock

from rapt import paths
from rapt.grid import ATTACKED, LOCAL, PUBLIC_LABELS, SCORE, TUNED
from rapt.params import Params
from rapt.reporting import tables, utility_table
from rapt.reporting.text import flat
from rapt.results import cells
from rapt.results.reader import ReadCell, Results, load, release
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.process import no_telemetry

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Param

EXPERIMENT = "rapt"
# Kinds of cells that answer the texts of a release. The attacks on it stand beside each of them.
ANSWERED = (*TUNED, PUBLIC_LABELS)
# Tags that identify a run; MLflow's own names the parent.
SWEEP, KIND, CELL, DIGEST = "rapt.sweep", "rapt.kind", "rapt.cell", "rapt.digest"
PARENT = "mlflow.parentRunId"


def sync(params: Params) -> str:
    """Update MLflow from the cells: log missing and changed ones, without duplicates.

    Returns:
        the path of the parent run's page, below MLflow's address.
    """
    results = load(params)
    records, sweep = _records(results), sweep_id(params)
    with store() as client:
        experiment = experiment_id(client)
        query = f"tags.`{SWEEP}` = '{sweep}'"
        runs = client.search_runs([experiment], query, max_results=10_000)
        parents = [run.info.run_id for run in runs if CELL not in run.data.tags]
        parent = parents[0] if parents else _start(client, experiment, results)
        for one in records:
            held = {
                run.info.run_id: run.data.tags.get(DIGEST)
                for run in runs
                if one.tags.items() >= {(k, run.data.tags.get(k)) for k in (KIND, CELL)}
            }
            current = next((run for run, digest in held.items() if digest == one.digest), None)
            if current is None:
                _write(client, experiment, {SWEEP: sweep, PARENT: parent}, one)
            # A changed run is replaced, as MLflow can neither change a param nor remove a metric.
            for run in held.keys() - {current}:
                client.delete_run(run)
                shutil.rmtree(files.home() / "mlartifacts" / run, ignore_errors=True)
        files.write_json(_synced(), _state(params, records))
        return f"#/experiments/{experiment}/runs/{parent}"


def is_synced(params: Params) -> bool:
    """Whether the last `sync` was of these cells, by their digests, without importing MLflow.

    Only `sync` itself notices runs that were deleted in MLflow since.
    """
    if not _synced().exists() or not (files.home() / "mlflow.db").exists():
        return False
    return bool(files.read_json(_synced()) == _state(params, _records(load(params))))


def _synced() -> Path:
    return files.home() / paths.STATE / "mlflow.json"


def _state(params: Params, records: list[Record]) -> list[str]:
    return [sweep_id(params), *(one.digest for one in records)]


def _records(results: Results) -> list[Record]:
    """Build the records of the cells that answer texts, and of the other cells' attacks."""
    answered, local, attacks = (
        [cell for kind in kinds for cell in results.of(kind)]
        for kinds in (ANSWERED, [LOCAL], ATTACKED)
    )
    beside = {attack.plan.path for cell in answered for attack in _attacks(results, cell).values()}
    alone = [cell for cell in attacks if cell.plan.path not in beside]
    return [record(results, cell) for cell in [*answered, *local, *alone] if cell.content]


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


def record(results: Results, cell: ReadCell) -> Record:
    """Build the MLflow record of a cell that has run."""
    name, task = cell.plan.cell, cell.factors["task"]
    eta = results.eta_found(cell.factors)
    varying = cells.sidecar(cell.plan.kind, name)
    seconds, times = varying.get("seconds"), None
    if varying:
        end = datetime.fromisoformat(varying["finished"]).timestamp()
        times = (int(1000 * (end - varying["seconds"])), int(1000 * end))
    places = {
        "statement.json": paths.statement(paths.PRIVATE / release(cell.factors)),
        "adapter": paths.adapter(name),
    }
    attacks = _attacks(results, cell) if cell.plan.kind in ANSWERED else {}
    digests = (results.raw_gates[task] or {}).get("sha256", {})
    return Record(
        name=f"{cell.plan.kind}-{name}" if cell.plan.kind in (LOCAL, PUBLIC_LABELS) else name,
        tags={
            KIND: cell.plan.kind,
            CELL: name,
            "protection": cell.protection,
            **{f"rapt.{key}": str(value) for key, value in varying.items() if key != "seconds"},
            **_doubts(results, attacks or {"": cell}),
        },
        params=_params(results.params, cell) | ({"eta_found": eta} if eta else {}),
        metrics=_metrics(results, cell, attacks, seconds),
        data={f"{task} {split}": digest for split, digest in digests.items()},
        artifacts={name: path for name, path in places.items() if path.exists()},
        times=times,
    )


def _params(p: Params, cell: ReadCell) -> dict[str, str]:
    """Return the cell's factors and, flattened, their sections of params.yaml."""
    factors = cell.factors
    found = factors | {"seed": str(p.seed), "seeds": str(p.seeds)}
    for name in ("backbone", "embedding"):
        if entry := getattr(p, f"{name}s").get(factors.get(name)):  # else a public task
            found[f"model.{name}"] = entry.model
    for name in ("method", "tuner", "denoiser", "attack"):
        section = getattr(p, f"{name}s").get(factors.get(name))
        if section:
            found |= flat(name, section.model_dump())
    if how := p.synthesizers.get(factors["method"]):
        found |= flat("synthesizer", how.model_dump())
    if cell.plan.kind in TUNED:
        found |= flat("train", p.train.model_dump())
        if p.tasks[factors["task"]].scored_apart:
            found |= flat("decoding", p.decoding.model_dump())
    return found


def _metrics(
    results: Results, cell: ReadCell, attacks: Mapping[str, ReadCell], seconds: float | None
) -> list[tuple[str, float, int]]:
    """Return the cell's figures, those of the attacks on it, and the curves of each seed."""
    assert cell.content
    found: dict[str, float | None] = _summary("", tables.shown(results, cell))
    found |= {f"floor_{_named(name)}": value for name, value in cell.content.baselines.items()}
    found |= {f"training_{name}": value for name, value in cell.content.training.items()}
    for prefix, attack in attacks.items():
        found |= _summary(prefix, tables.shown(results, attack))
    has_accuracy = cell.plan.kind in ANSWERED and utility_table.classifies(results, cell)
    for score in results.of(SCORE, **cell.factors) if cell.plan.kind in TUNED else ():
        found |= _summary("", score.content.metrics if score.content else {})
    for row in utility_table.utility(results) if has_accuracy else ():
        if (row.kind, row.cell) != (cell.plan.kind, cell.plan.cell):
            continue
        prefix = "combined/" if row.with_local else ""
        names = ("accuracy", "over_local", *utility_table.BREAK_EVEN[:3])
        found |= {f"{prefix}{name}": getattr(row, name) for name in names}
        found |= {f"{LOCAL}/accuracy": row.local, "to_beat": row.to_beat}
    found |= {"replaced_share": results.replaced(cell.factors), "seconds": seconds}
    single = [(name, value, 0) for name, value in sorted(found.items()) if value is not None]
    curves = [
        (f"seed-{seed.seed}/{name}", value, epoch)
        for seed in cell.content.seeds
        for name, values in sorted(seed.curves.items())
        for epoch, value in enumerate(values, start=1)
    ]
    return single + curves


def _doubts(results: Results, attacks: Mapping[str, ReadCell]) -> dict[str, str]:
    """Return tags that list the metrics of broken and of unproven attacks.

    A run has the figures of an unproven attack, but not of a broken one (`tables.shown`).
    """
    found: dict[str, list[str]] = {}
    for prefix, attack in attacks.items():
        for (_, metric), doubt in tables.doubts(results, [attack]).items():
            if doubt:
                found.setdefault(f"rapt.{doubt}", []).append(f"{prefix}{metric}")
    return {tag: ", ".join(names) for tag, names in found.items()}


def _attacks(results: Results, cell: ReadCell) -> dict[str, ReadCell]:
    """Find the attacks on a cell's release and on its adapters, by their prefix.

    They are of the cell's task, but inferences of any task. If the release was not attacked, the
    attacks on the same words released by another method count, as in the report. Otherwise RAPT
    would seem more private for want of attacks.
    """
    factors, found = cell.factors, dict[str, ReadCell]()
    same = {name: factors[name] for name in ("eta", "embedding")}
    of_release = [
        attack
        for method in tables.alike(results.params, factors["method"])
        for kind in ("invert", "recognize", "link", "infer")
        for attack in results.of(kind, method=method, **same)
        if kind == "infer" or attack.factors["task"] == factors["task"]
    ]
    for attack in [*of_release, *results.of("membership", **factors)]:
        if attack.content:
            task = f"{attack.factors['task']}/" if attack.plan.kind == "infer" else ""
            found.setdefault(f"{attack.factors['attack']}/{task}", attack)
    return found


def _summary(prefix: str, metrics: Mapping[str, cells.Metric]) -> dict[str, float | None]:
    """Return each metric's mean under its name, with its sd and, if known, its interval."""
    return {
        f"{prefix}{_named(name)}{suffix}": getattr(metric, part)
        for name, metric in metrics.items()
        for suffix, part in (("", "mean"), ("_sd", "sd"), ("_low", "low"), ("_high", "high"))
    }


def _named(metric: str) -> str:
    """Return a metric's name as MLflow allows it: a group's in it is the data's."""
    return re.sub(r"[^\w. -]", "_", metric)


@contextmanager
def store() -> Iterator[MlflowClient]:
    """Yield a client of the main workspace's database, locked against concurrent processes."""
    no_telemetry()
    home = files.home()
    state = home / paths.STATE
    state.mkdir(exist_ok=True)
    with FileLock(state / "mlflow.lock"):
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        uri = f"sqlite:///{quote(str(home))}/mlflow.db"
        yield MlflowClient(tracking_uri=uri, registry_uri=uri)


def _start(client: MlflowClient, experiment: str, results: Results) -> str:
    sweep = sweep_id(results.params)
    run = client.create_run(experiment, tags={SWEEP: sweep}, run_name=f"sweep {sweep[:8]}")
    run_id: str = run.info.run_id
    client.log_batch(run_id, params=_entities(flat("sweep", results.params.sweep.model_dump())))
    client.log_text(run_id, results.params_text, "params.yaml")
    client.set_terminated(run_id)
    return run_id


def _write(client: MlflowClient, experiment: str, tags: dict[str, str], record: Record) -> None:
    """Log a record as a run; `tags` name its parent, as MLFLOW_RUN_ID may name another run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

    start, end = record.times or (None, None)
    info = client.create_run(experiment, start, tags | record.tags, record.name).info
    client.log_batch(
        info.run_id,
        [Metric(name, value, info.start_time, step) for name, value, step in record.metrics],
        _entities(record.params),
    )
    inputs = [
        DatasetInput(
            # MLflow keeps 36 characters of a digest.
            Dataset(name, sha256[:36], source_type="rapt", source=json.dumps({"sha256": sha256})),
            [InputTag("mlflow.data.context", name.split()[-1])],
        )
        for name, sha256 in record.data.items()
    ]
    client.log_inputs(info.run_id, datasets=inputs)
    for name, path in record.artifacts.items():
        if path.is_dir():
            client.log_artifacts(info.run_id, str(path), name)
        else:
            client.log_artifact(info.run_id, str(path))
    client.set_terminated(info.run_id, end_time=end)
    # Last: an incomplete run has no digest, and is replaced.
    client.set_tag(info.run_id, DIGEST, record.digest)


def _entities(params: Mapping[str, str]) -> list[Param]:
    from mlflow.entities import Param

    return [Param(name, value) for name, value in params.items()]


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
