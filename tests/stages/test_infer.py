"""Inference: what its intervals are over, and the releases that an attacker makes himself."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rapt.attacks.attributes import Authorship
from rapt.attacks.base import Release
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import infer
from tests.attacks.test_scores import bounds_of
from tests.conftest import NOUNS, OTHERS
from tests.stages.conftest import Workspace
from tests.stages.releases import workspace as tagged_movies


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
        columns["example_id"] = np.array([f"{split}-{n}" for n in range(60)])
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
        kept = files.read_parquet("reports/predictions/infer/authorship-mine-t2t-3.parquet")
        assert len(kept) == 2 * len(alone) and sum(kept["counted"].to_pylist()) == 2 * 60
        assert sum(kept["right"].to_pylist()) == 36 + 30
        bounds = bounds_of([{"author": alone < 6}, {"author": alone < 5}], None)
        for name, mean in (("accuracy_author", 0.55), ("empirical_privacy_author", 0.45)):
            found = cell["metrics"][name]
            assert found["mean"] == pytest.approx(mean)
            assert (found["low"], found["high"]) == pytest.approx(bounds[name])


released_movies = tagged_movies


def test_an_attacker_privatizes_own_texts_anew_by_the_release_s_mechanism(
    released_movies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Release] = []

    def noted(self: Authorship, table: EmbeddingTable, own: Release, *rest: object) -> dict:
        given.append(own)
        raise RaptError("seen")

    monkeypatch.setattr(Authorship, "guesses", noted)
    with pytest.raises(RaptError, match="seen"):
        infer.main("authorship", "movies", "rapt", "2")
    own = given[0]
    assert own.anew
    made = [np.array(own.anew(0, number).words) for number in (1, 1, 2)]
    tagged = files.read_parquet("data/tagged/movies/train.parquet")
    texts = np.array(tagged["words"].to_pylist())
    np.testing.assert_array_equal(made[0], made[1])
    copies = [np.array(own.words), made[0], made[2]]
    nouns, others = np.isin(texts, NOUNS), np.isin(texts, OTHERS)
    kept = [(copy == texts)[nouns].mean() for copy in copies]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        np.testing.assert_array_equal(copies[one][others], copies[other][others])
        assert np.isin(copies[other][nouns], NOUNS).all()
        assert (copies[one] != copies[other])[nouns].any()
        # Of the same mechanism: five standard deviations.
        assert abs(kept[one] - kept[other]) < 5 * np.sqrt(0.5 / nouns.sum())
