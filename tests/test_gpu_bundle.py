"""The bundle runs on a machine that has what a GPU's image has, from another folder, offline."""

import json
import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.gpu import bundle
from rapt.utils.device import has_gpu
from tests.conftest import ROOT

# What the machine has, with what these need.
THERE = ("torch", "transformers", "peft", "scikit-learn", "pyarrow", "pandas", "typer", "pytest")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
pytestmark = pytest.mark.slow


def needed(names: tuple[str, ...]) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    left = list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # an option of another platform
            continue
        for line in found[name].requires or ():
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                left.append(one.name)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the machine, without those that the bundle brings."""
    folder = tmp_path_factory.mktemp("site")
    brought = {re.sub(r"[-_.]+", "-", name).lower() for name in bundle.WHEELS}
    for name, found in needed(THERE).items():
        for file in found.files or ():
            there = folder / file.parts[0]
            if name not in brought and file.parts[0] != ".." and not there.is_symlink():
                there.symlink_to(Path(str(found.locate_file(file.parts[0]))).resolve())
    assert not (folder / "spacy").exists() and not (folder / "pydantic").exists()
    return folder


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    packed = folder / "rapt-gpu.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        bundle.main(shared / "sst2", PYTHON, out=packed, rows=64)
    assert packed.stat().st_size < 60 << 20
    subprocess.run(["tar", "xf", packed, "-C", folder], check=True)
    return folder / "rapt-gpu"


def run(folder: Path, site: Path, *arguments: str, device: str = "cpu") -> tuple[int, str]:
    """The exit code and the errors of the bundle's command."""
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(site)}
    environment |= {"RAPT_DEVICE": device, "OUT": str(folder / "out"), "OMP_NUM_THREADS": "1"}
    command = [Path(sys.base_prefix, "bin", "python3"), "-m", "benchmarks.gpu", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_every_step_runs_and_is_written(unpacked: Path, site: Path) -> None:
    steps = ("card", "privatizing", "seed", "serving")
    assert run(unpacked, site, "--steps", *steps) == (0, "")
    found = json.loads((unpacked / "out" / "gpu.json").read_text())
    assert list(found) == [*steps]
    assert [step.get("failed") for step in found.values()] == [None] * len(steps)
    assert all(figure["value"] is not None for step in found.values() for figure in step["figures"])


def test_an_experiment_goes_on_with_the_cells_that_are_left(unpacked: Path, site: Path) -> None:
    params = unpacked / "params.yaml"
    text = params.read_text()
    params.write_text(re.sub(r"(etas|tune_at): \[.*\]", r"\1: [75]", text))
    digests = json.loads((unpacked / "bundle.json").read_text())
    del digests["files"]["params.yaml"]
    (unpacked / "bundle.json").write_text(json.dumps(digests))
    cells = unpacked / "reports" / "cells" / "train"
    cells.mkdir(parents=True)
    for name in ("clean", "pct2t-75", "rapt-75", "rapt-cap-75"):
        (cells / f"sst2-minilm-lora-{name}.json").write_text("{}")
    assert run(unpacked, site, "--experiment") == (0, "")
    with tarfile.open(unpacked / "out" / "results.tar") as tar:
        assert "reports/cells/train/sst2-minilm-lora-t2t-75.json" in tar.getnames()
    found = json.loads((unpacked / "out" / "gpu.json").read_text())
    assert [figure["value"] for figure in found["experiment"]["figures"]] == [1]


def test_a_step_that_is_too_long_is_told(unpacked: Path, site: Path) -> None:
    assert run(unpacked, site, "--steps", "writing", "serving", "--seconds", "2")[0] == 0
    found = json.loads((unpacked / "out" / "gpu.json").read_text())
    assert found["writing"]["failed"] == "it took more than 2 s"
    assert found["serving"]["failed"] == "no time was left"


@pytest.mark.parametrize(
    ("device", "line"),
    [
        ("cuda", r"RAPT_DEVICE: got 'cuda', expected .*"),
        ("tpu", r"RAPT_DEVICE: got 'tpu', expected .*"),
        pytest.param(
            "",
            r"RAPT_DEVICE: got cpu, expected cuda\. .*",
            marks=pytest.mark.skipif(has_gpu(), reason="a GPU is taken where there is one"),
        ),
    ],
)
def test_a_device_that_is_not_there_is_one_line(
    unpacked: Path, site: Path, device: str, line: str
) -> None:
    code, said = run(unpacked, site, device=device)
    assert code == 2
    assert re.fullmatch(line + r"\n", said)


def test_a_bundle_that_is_not_whole_is_one_line(unpacked: Path, site: Path) -> None:
    told = unpacked / "bundle.json"
    whole = told.read_text()
    for change, line in (
        ({"python": "3.9"}, rf"python: got {PYTHON}, expected 3.9, of which .*"),
        ({"files": {"wheels/none.whl": ""}}, r"wheels/none.whl: got no such file, expected .*"),
        ({"files": {"pyproject.toml": "00"}}, r"pyproject.toml: got another version, expected .*"),
    ):
        told.write_text(json.dumps(json.loads(whole) | change))
        assert (code := run(unpacked, site))[0] == 2
        assert re.fullmatch(line + r"\n", code[1])
    told.write_text(whole)


def test_a_folder_without_sst2_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu.bundle", "--sst2", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 2
    assert re.fullmatch(r"sst2: got '.*' without train.parquet, expected SST-2\.\n", done.stderr)
