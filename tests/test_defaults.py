"""The table and the tagger that nobody named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rapt import defaults, paths
from rapt.paths import TAGGER
from tests.conftest import ROOT

CACHED = Path("cached")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of no project, and a project that is read anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(defaults, "cached_table", lambda: CACHED)
    defaults.project.cache_clear()
    yield
    defaults.project.cache_clear()


def test_outside_a_project_a_table_is_one_that_is_there_or_the_users_own() -> None:
    assert defaults.tagger() == TAGGER
    assert defaults.table() == CACHED
    assert defaults.table("mine") == CACHED
    paths.table("mine").mkdir(parents=True)
    assert defaults.table("mine") == paths.table("mine")


def test_a_projects_table_is_the_one_of_its_params() -> None:
    Path("params.yaml").write_bytes((ROOT / "tests/every_section.yaml").read_bytes())
    p = defaults.project()
    assert p
    assert defaults.table() == paths.table(p.embedding)
    assert defaults.table("mine") == paths.table("mine")
    assert defaults.tagger() == p.tagger
