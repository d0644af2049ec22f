"""The stage of a provider with public labels, on words whose classes are known."""

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from rapt import params, paths
from rapt.baselines import local as models
from rapt.grid import PUBLIC_LABELS
from rapt.reporting.rows import Row
from rapt.reporting.utility_table import utility
from rapt.results import reader
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import local, public_labels
from tests.stages.conftest import Workspace, edited

FALSE_ALARM = 1e-6
# Words 2j and 2j + 1 tell different classes, and their letters do not say which tells which.
WORDS = np.array([f"w{chr(97 + i // 26)}{chr(97 + i % 26)}q" for i in range(80)])
CLASS = np.arange(80) % 2 ^ np.random.default_rng(0).integers(2, size=40).repeat(2)
COUNTS = {"train": 120, "test": 400}
# For each η, how often a released word tells the class that the text's own word tells.
KEPT = {"inf": 1, "50": 0.5, "75": 0.98}
Places = NDArray[np.int64]


def written(split: str, places: Places, labels: Places) -> pa.Table:
    """Texts of one word, by its place."""
    ids = [f"{split}-{i}" for i in range(len(places))]
    columns = {"example_id": ids, "words": WORDS[places, None].tolist(), "label": labels}
    return pa.table(columns | {"segment": [[0]] * len(ids)})


def drawn(split: str) -> Places:
    return np.random.default_rng(len(split)).integers(len(WORDS), size=COUNTS[split])


@pytest.fixture
def project(workspace: Workspace, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private task, and a public one with the same training rows."""
    root = workspace()
    monkeypatch.setattr(models, "DRAWS", 1)
    shutil.copytree(table.folder, root / paths.table("minilm"))
    with edited() as content:
        content["tasks"]["theirs"] = content["tasks"]["mine"]
        lists = {"methods": ["t2t"], "train": ["mine"], "tasks": ["mine", "theirs"]}
        emptied = ("attacked", "channel_inversions", "channels", "inversions", "tune_at", "tuners")
        content["sweep"] |= lists | {name: [] for name in emptied}
        content["public_labels"] = {"mine": "theirs"}
    for split in COUNTS:
        raw = written(split, drawn(split), CLASS[drawn(split)])
        for task in ("mine", "theirs"):
            files.write_parquet(paths.tagged(task) / f"{split}.parquet", raw)
    for (eta, kept), k, split in product(KEPT.items(), (0, 1), COUNTS):
        folder = paths.release("mine", "clean" if kept == 1 else f"t2t-{eta}")
        files.write_json(paths.statement(folder), {"protection": f"that of {eta}"})
        changed = np.random.default_rng([k, len(split)]).random(COUNTS[split]) > kept
        out = written(split, drawn(split) ^ changed, CLASS[drawn(split)])
        files.write_parquet(paths.seed(folder, k) / f"{split}.parquet", out)
    return root


def scored() -> dict[str, Row]:
    """The rows of public labels in the table of tuned cells, by η."""
    local.main("mine")
    public_labels.main("mine")
    every = [row for row in utility(reader.load(params.load())) if not row.with_local]
    return {row.eta: row for row in every if row.kind == PUBLIC_LABELS}


def test_public_rows_like_the_private_ones_are_worth_all_of_them(project: Path) -> None:
    """The provider's model is then the local one of all rows, whose curve ends there."""
    clean = scored()["inf"]
    (alone,) = reader.load(params.load()).of("local")
    names = ("accuracy_with_25", "accuracy_with_50", "accuracy_with_100", "accuracy")
    means = [metric.mean for metric in map(alone.metric, names) if metric]
    assert 0.55 < means[0] < means[1] < means[2] < means[3] < 0.98  # new words are guessed
    assert clean.accuracy == clean.local == means[3]
    assert clean.break_even == pytest.approx(120)
    assert clean.break_even_low < 120 and clean.break_even_high is None  # not even with the most
    assert (clean.group, clean.seeds) == (("mine", "theirs", PUBLIC_LABELS), 2)
    assert clean.protection == "that of inf"


def test_a_class_that_the_release_keeps_so_often_is_told_so_often(project: Path) -> None:
    """Public text has every word, so the noise alone misleads. Its classes have other numbers."""
    every = np.arange(len(WORDS)).repeat(3)
    theirs = written("train", every, 1 - CLASS[every])
    files.write_parquet(paths.tagged("theirs") / "train.parquet", theirs)
    with edited() as content:
        label = {**content["tasks"]["mine"]["label"], "names": ["good", "bad"]}
        content["tasks"]["theirs"] = content["tasks"]["mine"] | {"label": label}
    rows = scored()
    assert rows["inf"].accuracy == 1
    # One is worth more labels than the user has; the other, a coin, fewer than any that were tried.
    for eta, worth in (("75", None), ("50", 0)):
        right = round(rows[eta].accuracy * 800)
        assert binomtest(right, 800, KEPT[eta]).pvalue > FALSE_ALARM
        assert rows[eta].break_even == worth
    content = files.read_json("reports/cells/public_labels/mine/t2t-50.json")
    assert content["counts"] == {"train": 240, "test": 400}
    assert not any(word in str(content) for word in WORDS)
