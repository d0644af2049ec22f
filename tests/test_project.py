"""`rapt new`, and the wheel that carries what it copies."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rapt import project
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.conftest import ROOT


def test_a_project_has_all_that_its_stages_need(tmp_path: Path) -> None:
    made = tmp_path / "deep" / "mine"
    project.new(made)
    assert [path.name for path in made.parent.iterdir()] == ["mine"]  # and nothing half made
    stages = YAML(typ="safe").load(made / "dvc.yaml")["stages"].values()
    deps = [dep for stage in stages for dep in stage.get("do", stage)["deps"]]
    code = [dep for dep in deps if dep.startswith(("rapt/", "stages/"))]
    assert code
    assert not [dep for dep in code if not (made / dep).exists()]
    for name in project.FILES:
        if (ROOT / name).is_file():
            assert (made / name).read_bytes() == (ROOT / name).read_bytes()
    own = made / "rapt/reporting/glossary.md"  # of the page, which explains its terms
    assert not own.is_symlink()
    assert own.read_bytes() == (ROOT / "docs/glossary.md").read_bytes()
    assert not list(made.rglob("__pycache__"))
    git = ["git", "-C", made, "ls-files", "--others", "--exclude-standard", "rapt", "data"]
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    assert "rapt/cli.py" in listed  # so that Git and DVC see the library's code
    assert "data/.gitignore" in listed


def test_nothing_is_written_over(tmp_path: Path) -> None:
    with pytest.raises(
        RaptError, match=r"^FOLDER: got '.*', expected a folder that does not exist yet\.$"
    ):
        project.new(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(
        RaptError, match=r"^FOLDER: got '.*' \(.*\), expected one that can be made\.$"
    ):
        project.new(tmp_path / "file" / "mine")


@pytest.mark.slow
def test_the_wheel_works_alone(table: EmbeddingTable, tmp_path: Path) -> None:
    """In an empty environment, outside any clone."""
    source, wheels, work = tmp_path / "source", tmp_path / "wheels", tmp_path / "work"
    project.copy(ROOT, source)  # a build leaves files behind
    shutil.copytree(ROOT / "rapt", source / "rapt")
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels, source]
    subprocess.run(build, check=True)
    venv.create(tmp_path / "venv", symlinks=True)
    (wheel,) = wheels.iterdir()
    python = tmp_path / "venv/bin/python"
    install = [*pip, "--python", python, "install", "--quiet", "--no-compile", wheel]
    subprocess.run(install, check=True)

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*args: str | Path, cwd: Path = work) -> str:
        command = [tmp_path / "venv/bin/rapt", *args]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    work.mkdir()
    (work / "in.csv").write_text("id,text\n1,nouna verba\n")
    eta = ("--eta", "1", "--table", table.folder)
    run("privatize", "in.csv", "out.csv", *eta, "--keep", "id")
    private = (work / "out.csv").read_text()
    assert private.startswith("id,text\n1,")
    assert set(private.split(",")[-1].split()) <= set(table.words)
    run("calibrate", "--replaced", "0.5", "--words", "5", "--draws", "50", "--table", table.folder)
    run("mechanisms")
    run("new", "mine")
    assert "etas:" in run("params", cwd=work / "mine")
    listed = subprocess.run(
        [*pip, "--python", python, "list", "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.partition("==")[0].lower() for line in listed.stdout.split()}
    assert "rapt" in names
    assert not names & {"torch", "transformers", "dvc", "prefect", "mlflow", "great_expectations"}
