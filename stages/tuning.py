"""Shared by the stages `train` and `study`: training a cell on the provider's side."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rapt import models, params, paths
from rapt.kinds import kind_of
from rapt.kinds.base import Kind
from rapt.results import cells
from rapt.tuning.config import Denoising, PosteriorTarget, Run
from rapt.tuning.parallel import train_cell
from rapt.utils import files


def tune(
    kind: str,
    name: str,
    factors: dict[str, str],
    release: Path,
    denoising: Sequence[Denoising] = (),
) -> None:
    """Train every seed on RELEASE; write the adapters and the cell.

    Args:
        kind: the cell's kind.
        name: the cell's name.
        factors: the cell's factors; with `denoising` they include its denoiser.
        release: folder of the release.
        denoising: for each seed, how released words are denoised; empty: they are not.
    """
    p = params.load()
    statement = files.read_json(paths.statement(release))
    cell = cells.Cell(kind, name, factors | {"embedding": statement["embedding"]})
    with files.atomic(paths.adapter(name)) as adapters:
        task = kind_of(statement)
        runs = [run_of(p, name, factors, task, release, k, adapters) for k in range(p.seeds)]
        if denoising:
            runs = [replace(run, denoising=how) for run, how in zip(runs, denoising, strict=True)]
            of = p.denoisers[factors["denoiser"]]
            if isinstance(of, PosteriorTarget):
                runs = [replace(run, reconstruction=of) for run in runs]
        trained = train_cell(runs)
    predictions = paths.predictions(kind, name)
    counts, intervals, baselines = task.write_all(predictions, release, p.train, trained)
    cell.write(
        protection=statement["protection"],
        training=trained[0].training,
        seeds=[one.result for one in trained],
        intervals=intervals,
        device=", ".join(sorted({one.device for one in trained})),
        counts=counts,
        baselines=baselines,
    )
    for one in trained:  # only now: a killed stage resumes from them
        if one.checkpoint:
            one.checkpoint.unlink()


def run_of(
    p: params.Params,
    cell: str,
    factors: dict[str, str],
    kind: Kind,
    release: Path,
    k: int,
    adapters: Path,
) -> Run:
    """Return the run that trains a cell's seed k on `release`, into a folder of `adapters`."""
    backbone = p.backbones[factors["backbone"]]
    folder = models.of_source(paths.backbone(factors["backbone"]))
    tuner, fitting = p.tuners[factors["tuner"]], None
    if how := getattr(tuner, "federated", None):
        from rapt.federated.laws import Law  # loads torch, for which others start none
        from rapt.federated.simulation import Simulation

        fitting = Simulation(Law.of(how), f"{p.seed} {k}")
    # One that was pretrained lies where its stage wrote it.
    name = str(paths.backbone(factors["backbone"])) if backbone.pretrained else backbone.model
    return Run(
        cell=cell,
        release=release,
        k=k,
        seed=p.seed,
        backbone=folder,
        backbone_name=name,
        backbone_sha256=None if backbone.pretrained else backbone.sha256,
        encoder=backbone.encoder,
        tuner=tuner,
        reconstruction=p.method(factors["method"]).reconstruction,
        train=p.train,
        adapter=paths.seed(adapters, k),
        kind=kind,
        decoding=p.decoding,
        fitting=fitting,
    )
