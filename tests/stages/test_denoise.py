"""From a tagged data set to a cell on denoised words, each step by its stage."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rapt.utils import files
from stages import channel, denoise, privatize
from tests.conftest import NOUNS, VERBS

CELL = "mine-tiny-lora-pct2t-3"
KINDS = ("posterior-mean", "posterior-sample", "posterior-public", "posterior-target")


@pytest.mark.slow
def test_a_release_its_channel_and_a_backbone_make_a_cell(small: Path) -> None:
    privatize.main("mine", "pct2t", "3", "minilm", Path("data/private/mine/pct2t-3"))
    channel.main("minilm", "pct2t", "3")
    digests = []
    for kind in KINDS:
        cell = f"{CELL}-{kind}"
        denoise.main(cell, "mine", "tiny", "lora", "pct2t", "3", kind, "minilm")
        found = files.read_json(f"reports/cells/denoise/{cell}.json")
        assert found["factors"]["denoiser"] == kind
        assert (found["kind"], found["protection"]) == ("denoise", "d_X-privacy")
        assert [seed["seed"] for seed in found["seeds"]] == [0, 1]
        folder = Path("models/adapters", cell)
        assert sorted(path.name for path in folder.iterdir()) == ["seed-0", "seed-1"]
        how = files.read_json(folder / "seed-1/rapt.json")["denoiser"]
        assert how == kind.replace("public", "mean")
        words = files.read_json(folder / "seed-0/denoised/words.json")
        assert words == [*NOUNS, *VERBS]  # what the mechanism can release, not the determiner
        vectors = load_file(folder / "seed-0/denoised/vectors.safetensors")["vectors"]
        assert vectors.shape == (len(words), 32)
        assert np.isfinite(vectors).all()
        digests.append(files.sha256(folder))
        # A prior that is fitted to the release is the seed's own; the public one is that of all.
        other = load_file(folder / "seed-1/denoised/vectors.safetensors")["vectors"]
        assert np.array_equal(vectors, other) == (kind in ("posterior-public", "posterior-target"))
        predicts = "reconstruction_loss" in found["seeds"][0]["curves"]
        assert predicts == (kind == "posterior-target")
    assert len(set(digests)) == len(KINDS)
