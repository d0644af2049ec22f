"""Compare hidden states: `python -m stages.layers movies minilm lora rapt-75`."""

from pathlib import Path
from typing import Any

import torch

from rapt import models, params, paths
from rapt.analysis.hidden_states import distances, hidden_states, plane, spreads
from rapt.grid import CLEAN, split_release_name
from rapt.results import cells
from rapt.tuning.inputs import read_split
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import load
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
    name, releases = f"{task}-{backbone}-{tuner}", (CLEAN, release)
    folder = models.of_source(paths.backbone(backbone))
    quantize = getattr(p.tuners[tuner], "quantize", None)
    tokenizer = load_tokenizer(folder)

    def states(adapter: Path, texts: Path) -> torch.Tensor:
        split = read_split(texts, tokenizer, p.train.max_tokens)
        first = split.of(range(min(len(split), p.layers.texts)))
        model = load(adapter, folder, quantize, p.train.precision)
        return hidden_states(model, first, tokenizer.pad_token_id)

    seeds: list[dict[str, list[float]]] = []
    points: list[dict[str, list[list[float]]]] = []
    for k in bar(range(p.seeds), release, p.seeds):
        splits = [paths.seed(paths.release(task, r), k) / "test.parquet" for r in releases]
        labels = _labels(*splits)
        clean, own = (
            states(paths.seed(paths.adapter(f"{name}-{r}"), k), split)
            for r, split in zip(releases, splits, strict=True)
        )
        seeds.append({"distance": distances(clean, own), "spread": spreads(clean)})
        points = points or plane(clean, own, p.layers.points)
    method, eta = split_release_name(release)
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    files.write_json(
        paths.layers(f"{name}-{release}"),
        {
            "factors": factors,
            "texts": clean.shape[1],
            "layers": [_layer(seeds, layer) for layer in range(len(clean))],
            "points": points,
            "labels": labels[: len(points[0]["clean"])],
        },
    )


def _layer(seeds: list[dict[str, list[float]]], layer: int) -> dict[str, Any]:
    means = {name: cells.summary([seed[name][layer] for seed in seeds]) for name in seeds[0]}
    return {"layer": layer} | means


def _labels(clean: Path, own: Path) -> list[int]:
    """The classes of the texts of two releases, which have to be of the same texts."""
    one, other = (files.read_parquet(path, ["example_id", "label"]) for path in (clean, own))
    if one != other:
        raise RaptError(f"{own}: got other texts than in {clean}, expected the same.")
    return one["label"].to_pylist()


if __name__ == "__main__":
    run(main)
