"""Tuned cells: how a run is configured, the stages that tune, and the layers of tuned models."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt import models, params, paths
from rapt.grid import released
from rapt.kinds.classify import Classify
from rapt.results import cells, predictions
from rapt.tuning.config import BiLstm, Run, Trained
from rapt.tuning.tuners import Full, Lora
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import layers, privatize, study, train, tuning
from tests.conftest import ROOT
from tests.stages.conftest import edited, put_columns
from tests.tuning.conftest import WORDS


@pytest.fixture(scope="module")
def shipped() -> params.Params:
    return params.load(ROOT / "tests/every_section.yaml")


@pytest.fixture
def located(empty: Path) -> None:
    """A project in which both backbones are MiniLM's."""
    for name in ("bilstm", "minilm"):
        told = models.source(paths.MINILM, models.folder(paths.MINILM, None))
        files.write_json(paths.backbone(name) / models.SOURCE, told)


def told(p: params.Params, backbone: str, tuner: str) -> Run:
    factors = {"task": "movies", "backbone": backbone, "tuner": tuner, "method": "rapt"}
    return tuning.run_of(p, "cell", factors, Classify(), Path("release"), 1, Path("adapters"))


def test_a_run_has_the_encoder_of_its_backbone(shipped: params.Params, located: None) -> None:
    run = told(shipped, "bilstm", "full")
    assert run.encoder == BiLstm(hidden=300, layers=1, dropout=0.0)
    assert isinstance(run.tuner, Full)
    other = told(shipped, "minilm", "lora")
    assert other.encoder is None
    assert isinstance(other.tuner, Lora)
    assert other.backbone == run.backbone


def test_checkpoints_last_until_the_cell_is_written(
    shipped: params.Params, located: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.touch()
    result = cells.SeedResult(seed=0, metrics={"accuracy": 1.0})
    statement: dict[str, Any] = {"kind": "classify", "embedding": "minilm"}
    statement["protection"] = "unprotected"
    statement["labels"] = ["no", "yes"]
    files.write_json("release/statement.json", statement)
    for split in ("train", "test"):
        rows = pa.table({"example_id": ["a", "b"], "label": [0, 1]})
        files.write_parquet(f"release/seed-0/{split}.parquet", rows)

    def trained(runs: list[Run]) -> list[Trained]:
        runs[0].adapter.mkdir(parents=True)
        return [Trained(result, {"test": np.eye(2, dtype=np.float32)}, "cpu", checkpoint)]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(params, "load", lambda: shipped)
    monkeypatch.setattr(tuning, "train_cell", trained)
    factors = {"task": "movies", "backbone": "minilm", "tuner": "lora", "method": "rapt"}
    with monkeypatch.context() as patch:
        patch.setattr(cells.files, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            tuning.tune("train", "cell", factors, Path("release"))
    assert checkpoint.exists()
    tuning.tune("train", "cell", factors, Path("release"))
    assert not checkpoint.exists()
    assert files.read_json("reports/cells/train/cell.json")["seeds"] == [
        {"seed": 0, "metrics": {"accuracy": 1.0}, "curves": {}}
    ]
    found = predictions.read(Path("reports/predictions/train/cell.parquet"))
    assert list(found) == ["test"]
    assert found["test"].examples == ["a", "b"]
    assert found["test"].right.all()


FACTORS = {"task": "mine", "backbone": "tiny", "tuner": "lora"}


def tuned(method: str, eta: str) -> Path:
    """Release the small workspace's texts, and tune on them by the stages."""
    name = released(method, eta)
    privatize.main("mine", method, eta, "minilm", Path(f"data/private/mine/{name}"))
    train.main(f"mine-tiny-lora-{name}", "mine", "tiny", "lora", method, eta)
    return Path(f"models/adapters/mine-tiny-lora-{name}")


@pytest.mark.slow
def test_from_releases_to_tuned_cells_and_what_their_layers_make_of_texts(small: Path) -> None:
    with edited() as content:
        content["layers"] |= {"texts": 20, "points": 5}
        content["methods"]["rapt"]["categories"] = ["noun", "verb"]
        content["methods"]["rapt"]["plain_tokens"]["length"] = 2
        study_of = FACTORS | {"embedding": "minilm", "method": "rapt", "eta": 3}
        content["studies"]["mine"] = study_of
    for split in ("train", "test"):  # each text begins with a word that the backbone knows
        tagged = small / f"data/tagged/mine/{split}.parquet"
        words = files.read_parquet(tagged)["words"].to_pylist()
        put_columns(tagged, words=[[WORDS[i % 6], *own[1:]] for i, own in enumerate(words)])
    tuned("clean", "inf")
    adapters = tuned("rapt", "3")
    factors = FACTORS | {"method": "rapt", "eta": "3"}
    cell = files.read_json("reports/cells/train/mine-tiny-lora-rapt-3.json")
    assert cell["factors"] == factors | {"embedding": "minilm"}
    assert [seed["seed"] for seed in cell["seeds"]] == [0, 1]
    contract = files.read_json(adapters / "seed-1/rapt.json")
    assert (contract["statement"]["method"], contract["statement"]["eta"]) == ("rapt", "3")

    # A study of the same release is the same but for its name and its factor.
    shutil.copytree("data/private/mine/rapt-3", paths.study_release("mine"))
    study.main("mine")
    found = files.read_json("reports/cells/study/mine.json")
    assert found["factors"] == cell["factors"] | {"study": "mine"}
    assert found["seeds"] == cell["seeds"]

    layers.main("mine", "tiny", "lora", "rapt-3")
    path = Path("reports/statistics/layers/mine-tiny-lora-rapt-3.json")
    shown, first = files.read_json(path), path.read_bytes()
    assert shown["factors"] == factors
    assert (shown["texts"], shown["labels"]) == (20, [0, 1, 0, 1, 0])
    assert [layer["layer"] for layer in shown["layers"]] == [0, 1, 2]
    assert all(layer["distance"]["mean"] > 0 for layer in shown["layers"])
    assert all(layer["spread"]["n"] == 2 for layer in shown["layers"])
    assert all(layer["spread"]["mean"] > 0 for layer in shown["layers"])
    assert [len(points["own"]) for points in shown["points"]] == [5, 5, 5]
    # Numbers alone, and the same from the same.
    layers.main("mine", "tiny", "lora", "rapt-3")
    assert path.read_bytes() == first
    # Against itself nothing moves; the points are those of the first seed's clean model.
    shutil.copytree("data/private/mine/clean", "data/private/mine/t2t-9")
    shutil.copytree("models/adapters/mine-tiny-lora-clean", "models/adapters/mine-tiny-lora-t2t-9")
    layers.main("mine", "tiny", "lora", "t2t-9")
    same = files.read_json("reports/statistics/layers/mine-tiny-lora-t2t-9.json")
    assert [layer["distance"]["mean"] for layer in same["layers"]] == [0, 0, 0]
    # The scale is that of clean text alone.
    spreads = [[layer["spread"] for layer in found["layers"]] for found in (same, shown)]
    assert spreads[0] == spreads[1]
    assert all(points["own"] == points["clean"] for points in same["points"])


@pytest.mark.slow
def test_a_policy_of_params_tunes_twice_on_clean_text(small: Path) -> None:
    """The cell and the adapter say what the training promises: of words that were found alone."""
    policy = {"detectors": [], "parts_of_speech": ["DET"], "epochs": 1}
    with edited() as content:
        content["tuners"]["lora"] = {"type": "lora", "learning_rate": 0.01}
        content["tuners"]["lora"]["private"] = {"epsilon": 8, "delta": 0.01, "policy": policy}
        content["sweep"] |= {"train": ["mine"], "tuners": ["lora"], "tune_at": [], "layers": []}
    adapters = tuned("clean", "inf")
    cell = files.read_json("reports/cells/train/mine-tiny-lora-clean.json")
    assert cell["training"] == files.read_json(adapters / "seed-0/rapt.json")["training"]
    assert cell["training"]["epsilon"] <= 8
    assert (cell["training"]["words_found"], cell["training"]["words"]) == (24, 96)  # each "the"


def test_releases_of_other_texts_are_refused(small: Path) -> None:
    for method, eta in (("clean", "inf"), ("pct2t", "3")):
        path = Path(f"data/private/mine/{released(method, eta)}")
        privatize.main("mine", method, eta, "minilm", path)
    table = files.read_parquet("data/private/mine/pct2t-3/seed-0/test.parquet")
    files.write_parquet("data/private/mine/pct2t-3/seed-0/test.parquet", table[1:])
    with pytest.raises(RaptError, match="got other texts than in"):
        layers.main("mine", "tiny", "lora", "pct2t-3")
