"""Refusals of a flow on a pool, and the snapshot that it publishes."""

from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from ruamel.yaml import YAML

from pipelines import remote
from pipelines.slots import snapshot
from rapt import params
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.pipelines.conftest import SIDES, make


def test_text_that_git_tracks_is_refused(tmp_path: Path) -> None:
    toy = make(tmp_path / "toy", "", SIDES)
    given = YAML(typ="safe").load(ROOT / "params.yaml")
    given["tasks"]["movies"]["source"] = {
        "type": "files",
        "files": {"all": "mine/[1].csv"},
        "sha256": None,
    }
    experiment = params.validate(given)
    text = toy.root / "mine/[1].csv"
    text.parent.mkdir()
    text.write_text("text,label\n")
    remote.refuse_tracked_text(toy.root, experiment)
    toy.git("add", "mine")  # not committed, yet part of the snapshot
    with pytest.raises(RaptError) as error:
        remote.refuse_tracked_text(toy.root, experiment)
    assert str(error.value) == (
        "tasks.movies.source.files: got mine/[1].csv, expected a file that git ignores: the pool "
        "gets what git tracks. Ignore it, then: git rm --cached mine/[1].csv"
    )
    text.rename(tmp_path / "elsewhere.csv")
    text.symlink_to(tmp_path / "elsewhere.csv")  # git has the link, not the text
    remote.refuse_tracked_text(toy.root, experiment)
    toy.git("rm", "--cached", "-rfq", "mine")
    text.unlink()
    text.symlink_to(toy.root / "tracked.csv")
    (toy.root / "tracked.csv").touch()
    toy.git("add", "tracked.csv")
    with pytest.raises(RaptError, match="expected a file that git ignores"):
        remote.refuse_tracked_text(toy.root, experiment)


def test_a_password_is_no_parameter_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(RaptError) as error:
        remote._address(tmp_path, "https://me:secret@example.org/rapt.git")
    assert "secret" not in str(error.value)
    assert remote._address(tmp_path, "ssh://git@example.org/rapt.git")


@pytest.mark.slow
def test_a_flow_says_what_it_lacks(server: str) -> None:
    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(RaptError) as error:
        remote._look("nobody")
    assert str(error.value) == (
        "pool: got 'nobody', expected one with a deployment. Try: prefect deploy --all"
    )
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(RaptError, match="PREFECT_API_URL: got no answer at"),
    ):
        remote._look("provider")
    with (
        temporary_settings({PREFECT_API_URL: None}),
        pytest.raises(RaptError, match="PREFECT_API_URL: got none, expected the server"),
    ):
        remote._look("provider")


@pytest.mark.slow
def test_two_flows_publish_beside_each_other(tmp_path: Path, server: str) -> None:
    toys = [make(tmp_path / name, server, SIDES) for name in ("one", "two")]
    shared = str(tmp_path / "shared.git")
    toys[0].git("init", "-q", "--bare", shared)
    (toys[0].root / "stages/make.py").write_text("edited = True\n")
    with (
        remote.published(toys[0].root, snapshot(toys[0].root), shared) as first,
        remote.published(toys[1].root, snapshot(toys[1].root), shared) as second,
    ):
        refs = toys[0].git("ls-remote", shared).split()
        assert sorted(refs[1::2]) == sorted([f"refs/rapt/{first}", f"refs/rapt/{second}"])
        assert toys[0].git("show", f"{first}:stages/make.py") == "edited = True\n"
        assert toys[0].git("log", "--format=%P", first).strip() == ""
    assert toys[0].git("ls-remote", shared) == ""
    # The next flow removes the ref of one that was killed.
    where = {"repository": shared, "commit": first}
    toys[0].git("push", "-q", shared, f"{first}:refs/rapt/{first}")
    files.write_json(toys[0].root / ".rapt/published.json", where)
    with remote.published(toys[0].root, first, shared) as third:
        assert toys[0].git("ls-remote", shared).split()[1::2] == [f"refs/rapt/{third}"]
