"""What the stages `train` and `study` share: a cell of the provider's side."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from rapt import cells, files, models, params
from rapt.tuning.config import TUNERS, BiLstm, Denoising, Loop, Originals, Reconstruction, Run
from rapt.tuning.seeds import train_all, write_denoised


def tune(
    kind: str,
    name: str,
    factors: dict[str, str],
    release: str,
    originals: Originals | None = None,
) -> None:
    """Train every seed on RELEASE; write the adapters and the cell.

    Args:
        kind: of the cell.
        name: of the cell.
        factors: of the cell; with `originals` one is its denoiser.
        release: folder of the release.
        originals: what released words may have been; None: they are read as they are.
    """
    p = params.load()
    statement = files.read_json(f"{release}/statement.json")
    cell = cells.Cell(kind, name, factors | {"embedding": statement["embedding"]})
    with files.atomic(f"models/adapters/{name}") as adapters, TemporaryDirectory() as scratch:
        denoising = None
        if originals:
            denoising = _denoising(p, factors, adapters, Path(scratch))
            write_denoised(originals, _backbone(p, factors), denoising)
        results = train_all(
            [_run(p, name, factors, Path(release), k, adapters, denoising) for k in range(p.seeds)]
        )
    labels = {split: _labels(Path(release), split) for split in ("train", "test")}
    devices = {result.pop("device") for result in results}
    cell.write(
        protection=statement["protection"],
        seeds=results,
        device=", ".join(sorted(devices)),
        counts={split: len(classes) for split, classes in labels.items()},
        floors={"majority": max(Counter(labels["test"]).values()) / len(labels["test"])},
    )


def _backbone(p: params.Params, factors: dict[str, str]) -> Path:
    backbone = p.backbones[factors["backbone"]]
    return models.folder(backbone.model, backbone.sha256)


def _denoising(
    p: params.Params, factors: dict[str, str], adapters: Path, scratch: Path
) -> Denoising:
    """D lies beside the seeds' adapters; what is drawn from is needed while training alone."""
    kind = p.denoisers[factors["denoiser"]].type
    draws = scratch / "draws.safetensors" if kind == "posterior-sample" else None
    return Denoising(adapters / "denoised", draws)


def _run(
    p: params.Params,
    cell: str,
    factors: dict[str, str],
    release: Path,
    k: int,
    adapters: Path,
    denoising: Denoising | None,
) -> Run:
    backbone, tuner = p.backbones[factors["backbone"]], p.tuners[factors["tuner"]]
    reconstruction, encoder = p.methods[factors["method"]].reconstruction, backbone.encoder
    return Run(
        cell=cell,
        release=release,
        k=k,
        seed=p.seed,
        backbone=_backbone(p, factors),
        backbone_name=backbone.model,
        backbone_sha256=backbone.sha256,
        encoder=BiLstm(**encoder.model_dump(exclude={"type"})) if encoder else None,
        tuner=TUNERS[tuner.type](**tuner.model_dump(exclude={"type"})),
        reconstruction=Reconstruction(**reconstruction.model_dump()) if reconstruction else None,
        denoising=denoising,
        loop=Loop(**p.train.model_dump()),
        adapter=adapters / f"seed-{k}",
    )


def _labels(release: Path, split: str) -> list[int]:
    path = release / f"seed-0/{split}.parquet"
    return files.read_parquet(path, ["label"])["label"].to_pylist()
