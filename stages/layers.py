"""Compare hidden states: `python -m stages.layers movies minilm lora rapt-75`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rapt import models, params, paths
from rapt.analysis.hidden_states import distances, hidden_states, plane, spreads
from rapt.grid import CLEAN
from rapt.results import cells
from rapt.tuning.backbones import load_model, load_tokenizer
from rapt.tuning.inputs import Split, read_split
from rapt.tuning.model import load, needs_backbone, placed
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar
from stages import run


def main(task: str, backbone: str, tuner: str, release: str) -> None:
    """Set the hidden states of what was tuned on RELEASE against those of the model of clean text.

    Each model reads the test split of its own release, and so its own words for the same texts.
    """
    # As in training: with more threads the sums depend on how many there are.
    torch.set_num_threads(1)
    p = params.load()
    adapters, releases = f"models/adapters/{task}-{backbone}-{tuner}", paths.PRIVATE / task
    names = (CLEAN, release)
    seeds: list[dict[str, list[float]]] = []
    points: list[dict[str, list[list[float]]]] = []
    for k in bar(range(p.seeds), release, p.seeds):
        splits = [Path(f"{releases}/{name}/seed-{k}/test.parquet") for name in names]
        labels = _labels(*splits)
        clean, own = (
            _states(p, backbone, tuner, Path(f"{adapters}-{name}/seed-{k}"), split)
            for name, split in zip(names, splits, strict=True)
        )
        seeds.append({"distance": distances(clean, own), "spread": spreads(clean)})
        points = points or plane(clean, own, p.layers.points)
    method, _, eta = release.rpartition("-")
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    files.write_json(
        paths.layers(f"{task}-{backbone}-{tuner}-{release}"),
        {
            "factors": factors,
            "texts": clean.shape[1],
            "layers": [
                {"layer": layer, **{name: _summary(seeds, name, layer) for name in seeds[0]}}
                for layer in range(len(clean))
            ],
            "points": points,
            "labels": labels[: len(points[0]["clean"])],
        },
    )


def _summary(seeds: list[dict[str, list[float]]], name: str, layer: int) -> dict[str, Any]:
    return cells.summary([seed[name][layer] for seed in seeds])


def _labels(clean: Path, own: Path) -> list[int]:
    """The classes of the texts that two releases share.

    Raises:
        RaptError: they are of other texts.
    """
    one, other = (files.read_parquet(path, ["example_id", "label"]) for path in (clean, own))
    if one != other:
        raise RaptError(f"{own}: got other texts than in {clean}, expected the same.")
    return one["label"].to_pylist()


def _states(p: params.Params, backbone: str, tuner: str, adapter: Path, release: Path) -> Tensor:
    """The hidden states of the first texts of a release, (L + 1, n, h)."""
    folder = models.folder(p.backbones[backbone].model, p.backbones[backbone].sha256)
    quantize, precision = getattr(p.tuners[tuner], "quantize", None), p.train.precision
    bare = load_model(folder, quantize, precision) if needs_backbone(adapter) else None
    tokenizer = load_tokenizer(folder)
    split = _first(read_split(release, tokenizer, p.train.max_tokens), p.layers.texts)
    return hidden_states(placed(load(adapter, bare, precision)), split, tokenizer.pad_token_id)


def _first(split: Split, count: int) -> Split:
    """The first texts of a split."""
    cut = {name: rows[:count] for name, rows in vars(split).items() if name != "vectors"}
    return replace(split, **cut)


if __name__ == "__main__":
    run(main)
