"""Membership inference on adapters that remember their texts, from those texts to the cell."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from rapt.privacy.seeded import SeededCopy
from rapt.utils import files
from stages import backbone as backbone_stage
from stages import membership, privatize, train
from tests import tiny
from tests.conftest import NOUNS
from tests.stages.conftest import edited, write_tagged
from tests.tuning.conftest import WORDS

pytestmark = pytest.mark.slow
MEMBERS, OTHERS = 48, 200
HELD_OUT = 4  # of the training rows, which are then no members
# How far from 0.5 an AUC is with a chance of 1e-6 where members and others are scored alike
# (Mann and Whitney, 1947).
SPREAD = 4.9 * np.sqrt((MEMBERS + OTHERS + 1) / (12 * MEMBERS * OTHERS))


def tag(split: str, seed: int, words: list[str]) -> None:
    """Lay texts of random words, whose classes have nothing to do with them."""
    rng, n = np.random.default_rng(seed), MEMBERS if split == "train" else OTHERS
    texts = [list(rng.choice(words, 6)) for _ in range(n)]
    write_tagged("mine", split, texts, label=rng.permutation([0, 1] * (n // 2)))


def tune(backbone: str, tuner: str, method: str, epochs: int, learning_rate: float) -> None:
    """Tune on clean text."""
    with edited() as params:
        like = params["backbones"]["tiny"]
        lstm = {"type": "bilstm", "hidden": 32, "layers": 1, "dropout": 0.0}
        params["backbones"] |= {
            "narrow": like | {"model": "narrow"},
            "lstm": like | {"encoder": lstm},
        }
        rapt = params["methods"]["rapt"]
        rapt["categories"] = ["noun", "verb"]
        rapt["reconstruction"]["weight"] = 0.1
        params["train"] |= {"epochs": epochs, "max_tokens": 8, "held_out": HELD_OUT / MEMBERS}
        params["train"]["batch_size"] = MEMBERS // 2
        params["tuners"][tuner]["learning_rate"] = learning_rate
        params["attacks"]["lira"] = {"type": "lira", "shadows": 4}
    privatize.main("mine", method, "inf", "minilm", Path(f"data/private/mine/{method}-inf"))
    backbone_stage.main(backbone)
    cell = f"mine-{backbone}-{tuner}-{method}-inf"
    train.main(cell, "mine", backbone, tuner, method, "inf")


def attack(name: str, backbone: str, tuner: str, method: str) -> dict[str, Any]:
    membership.main(name, "mine", backbone, tuner, method, "inf")
    cell = f"{name}-mine-{backbone}-{tuner}-{method}-inf"
    return files.read_json(f"reports/cells/membership/{cell}.json")


def test_shadows_learn_labels_with_the_noise_of_the_release(
    small: Path, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, split in enumerate(("train", "test")):
        tag(split, seed, WORDS[:6])
    with edited() as params:
        params["methods"]["rapt"]["labels"] = {"epsilon": 0.1}
    tune("tiny", "lora", "rapt", epochs=1, learning_rate=0.01)
    released = []

    def write(
        tuned_on: NDArray[np.bool_], candidates: pa.Table, copies: list[SeededCopy], *_: Any
    ) -> NDArray[np.float64]:
        for copy, chosen in zip(copies, tuned_on, strict=True):
            members = candidates.filter(chosen)
            copy.write({"train": members}, Path("shadow"))
            drawn = files.read_parquet("shadow/train.parquet")["label"].to_numpy()
            released.append(np.mean(drawn == members["label"].to_numpy()))
        return np.full((*tuned_on.shape, 2), 0.5)

    monkeypatch.setattr(membership, "shadow_answers", write)
    attack("lira", "tiny", "lora", "rapt")
    assert len(released) == 4 and max(released) < 0.8  # 0.52 of the labels stay, of 120 and more


@pytest.fixture
def narrow(small: Path, backbone: Path) -> None:
    """A backbone of the table's width, so that it can be given vectors."""
    tiny.of_width(8, backbone, Path("narrow"))


@pytest.mark.parametrize(
    ("name", "tuner", "method", "learning_rate"),
    [
        ("tiny", "lora", "rapt", 0.02),
        ("narrow", "full", "token-representation", 0.01),
        ("lstm", "full", "t2t", 0.03),
    ],
)
def test_members_are_told_where_the_model_remembers_them(
    narrow: None, name: str, tuner: str, method: str, learning_rate: float
) -> None:
    words = NOUNS if method == "token-representation" else WORDS[:6]
    for seed, split in enumerate(("train", "test")):
        tag(split, seed, words)
    tune(name, tuner, method, epochs=100, learning_rate=learning_rate)
    cell = attack("loss", name, tuner, method)
    assert (cell["kind"], cell["protection"]) == ("membership", "unprotected")
    assert cell["factors"]["tuner"] == tuner
    assert cell["counts"] == {"members": MEMBERS - HELD_OUT, "others": OTHERS}
    auc = cell["metrics"]["auc"]
    assert auc["mean"] > 0.65  # once in a thousand where nothing is remembered
    assert auc["low"] <= auc["mean"] <= auc["high"]
    assert cell["metrics"]["empirical_privacy"]["high"] == pytest.approx(1 - auc["low"])
    if method == "rapt":  # shadows take as long as the rest of the test
        by_shadows = attack("lira", name, tuner, method)
        assert by_shadows["metrics"]["auc"]["mean"] > 0.65
        for seed in by_shadows["seeds"]:
            wrong, right = (seed["curves"][f"{kind}_positive_rate"] for kind in ("false", "true"))
            assert (wrong[0], wrong[-1], right[-1]) == (0.001, 1, 1)
            assert right == sorted(right)
            assert right[0] == seed["metrics"]["tpr_at_01"]
    # The same adapter cannot tell texts of which it has seen none.
    for seed, split in enumerate(("train", "test"), start=2):
        tag(split, seed, words)
    others = attack("loss", name, tuner, method)
    assert abs(others["metrics"]["auc"]["mean"] - 0.5) < SPREAD
