"""The intervals of inference: what varies is the author, where authors are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from rapt.attacks.scores import attribute_scores, intervals
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import infer
from tests.stages.conftest import Workspace

Right = dict[str, NDArray[np.bool_]]


def _intervals(
    seeds: list[Right], authors: NDArray[np.int64] | None
) -> dict[str, tuple[float, float]]:
    """The intervals where each seed's guesses are right so often."""
    truth = [{name: ["me"] * len(right) for name, right in seed.items()} for seed in seeds]
    guesses = [
        {name: np.where(right, "me", "you").tolist() for name, right in seed.items()}
        for seed in seeds
    ]
    return intervals(
        [attribute_scores(*both, authors) for both in zip(truth, guesses, strict=True)]
    )


def test_texts_of_one_author_belong_together() -> None:
    """Twenty texts each of ten authors, who are told as one: as sure as ten texts would be."""
    authors = np.repeat(np.arange(10), 20)
    right = {"age": authors < 6}
    alone = {"age": np.arange(10) < 6}
    low, high = _intervals([right, right], authors)["accuracy_age"]
    assert (low, high) == pytest.approx(_intervals([alone, alone], None)["accuracy_age"])
    near, far = _intervals([right, right], None)["accuracy_age"]
    assert high - low > 4 * (far - near)


@pytest.fixture
def misled(workspace: Workspace, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tagged texts and two copies of a release, whose words tell who wrote a training text.

    Of ten authors of six test texts each they do of six, of five in the other copy, and mislead of
    the others.
    """
    root = workspace(authors=["user"])
    monkeypatch.setenv("RAPT_HOME", str(root))
    shutil.copytree(table.folder, root / "models/tables/tiny")
    release = root / "data/private/mine/t2t-3"
    files.write_json(release / "statement.json", {"embedding": "tiny", "protection": "d_X-privacy"})
    for split in ("train", "test"):
        authors = np.repeat(np.arange(10), 6)
        mine = authors % 2 == 0
        columns = {"attribute_author": np.where(mine, "me", "you"), "author": authors}
        files.write_parquet(root / f"data/tagged/mine/{split}.parquet", pa.table(columns))
        for k in range(2):
            told = mine ^ (authors >= 6 - k) if split == "test" else mine
            words = [["nouna" if one else "nounb"] for one in told]
            files.write_parquet(release / f"seed-{k}/{split}.parquet", pa.table({"words": words}))
    return root


def test_a_cell_s_interval_is_over_authors_where_they_are_known(misled: Path) -> None:
    """As sure as ten texts would be, where without the authors it is as sure as sixty are."""
    tagged = misled / "data/tagged/mine/test.parquet"
    for each, drop in ((1, []), (6, ["author"])):
        files.write_parquet(tagged, files.read_parquet(tagged).drop_columns(drop))
        infer.main("authorship", "mine", "t2t", "3")
        cell = files.read_json("reports/cells/infer/authorship-mine-t2t-3.json")
        assert cell["counts"] == {"train": 60, "test": 60}
        alone = np.repeat(np.arange(10), each)
        bounds = _intervals([{"author": alone < 6}, {"author": alone < 5}], None)
        for name, mean in (("accuracy_author", 0.55), ("empirical_privacy_author", 0.45)):
            found = cell["metrics"][name]
            assert found["mean"] == pytest.approx(mean)
            assert (found["low"], found["high"]) == pytest.approx(bounds[name])
