"""`make gpu-bundle`: all that a bare machine with a card needs, in one file of at most 60 MiB.

The machine has PyTorch, Transformers, PEFT, scikit-learn and pyarrow, and no network. The bundle is
a project of the preset sst2-full whose texts are tagged already, with the packages that are missing
there. Its MiniLM has weights in float16: what runs on the machine starts from these.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from safetensors.torch import load_file, save_file

from rapt import models, paths
from rapt.utils import files
from rapt.utils.errors import RaptError

PRESET, TASK, EMBEDDING = Path("presets/sst2-full.yaml"), "sst2", "minilm"
NAME, MOST = "rapt-gpu", 60 << 20
WHEELS = (
    "pydantic",
    "pydantic_core",
    "annotated-types",
    "typing-inspection",
    "ruamel.yaml",
    "randomgen",
    "fastapi",
    "starlette",
    "uvicorn",
    "opentelemetry-api",
)
# Of glibc, from the newest on: pip takes a wheel of exactly one of those that are named.
GLIBC = (39, 35, 34, 31, 28, 27, 24, 17)
CODE = ("rapt", "stages", "benchmarks", "pyproject.toml")
MODEL = "models/minilm-float16"


def main(
    sst2: Annotated[Path, typer.Option(help="folder of train.parquet and test.parquet")],
    python: Annotated[str, typer.Option(help="version that the machine has")] = "3.12",
    done: Annotated[Path | None, typer.Option(help="results.tar of an earlier run")] = None,
    out: Annotated[Path, typer.Option()] = Path("build", f"{NAME}.tar.gz"),
    rows: Annotated[int | None, typer.Option(help="of each split; all by default")] = None,
) -> None:
    """Write the bundle."""
    for split in ("train", "test"):
        if not (sst2 / f"{split}.parquet").is_file():
            raise RaptError(f"sst2: got {str(sst2)!r} without {split}.parquet, expected SST-2.")
    with TemporaryDirectory() as scratch:
        project = Path(scratch, NAME)
        _code(project)
        _data(project, sst2.resolve(), rows)
        _model(project)
        _wheels(project / "wheels", python)
        if done:
            subprocess.run(["tar", "xf", done, "-C", project], check=True)
        digests = {
            path.relative_to(project).as_posix(): files.sha256(path)
            for path in sorted(project.rglob("*"))
            if path.is_file()
        }
        files.write_json(project / "bundle.json", {"python": python, "files": digests})
        out.parent.mkdir(exist_ok=True)
        with files.atomic(out) as new, tarfile.open(new, "w:gz") as tar:
            tar.add(project, NAME)
    if (size := out.stat().st_size) > MOST:
        raise RaptError(f"{out}: got {size >> 20} MiB, expected at most {MOST >> 20}.")
    print(f"{out}: {size / (1 << 20):.1f} MiB. On the machine: tar xf it, then in {NAME}:")
    print("  python3 -m benchmarks.gpu")


def _code(project: Path) -> None:
    """Copy what git tracks of our sources, and the tests that are worth a card."""
    marked = [Path(name) for name in _git("grep", "-l", "mark.gpu", "--", "tests/*/test_*.py")]
    rooms = {room for test in marked for room in test.parents if room.parts}
    tests = [path for path in map(Path, _git("ls-files", "tests")) if path.parent in rooms]
    for path in {*map(Path, _git("ls-files", *CODE)), *tests}:
        if path.is_file():  # not a link to another
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, project / path)


def _git(*arguments: str) -> list[str]:
    told = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()


def _data(project: Path, sst2: Path, rows: int | None) -> None:
    """Write the experiment's params, and run its stages up to the tagged texts and the table."""
    params = PRESET.read_text()
    if rows:
        params = params.replace(
            "    text: sentence\n",
            f"    text: sentence\n    rows: {{train: {rows}, test: {rows}}}\n",
        )
    (project / paths.PARAMS).write_text(params)
    external = project / "external" / TASK
    external.parent.mkdir()
    external.symlink_to(sst2)
    for stage, name in (("download", TASK), ("tag", TASK), ("tables", EMBEDDING)):
        subprocess.run([sys.executable, "-m", f"stages.{stage}", name], cwd=project, check=True)
    shutil.rmtree(external.parent)
    for vectors in (project / paths.table(EMBEDDING)).glob("*.npy"):
        vectors.unlink()  # the model has them
    told = [line for line in params.splitlines(keepends=True) if "sha256:" not in line]
    (project / paths.PARAMS).write_text("".join(told).replace(paths.MINILM, MODEL))


def _model(project: Path) -> None:
    """Write MiniLM in float16."""
    source, to = models.folder(paths.MINILM, None), project / MODEL
    to.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, to / name)
    weights = load_file(source / "model.safetensors")
    half = {name: w.half() if w.is_floating_point() else w for name, w in weights.items()}
    save_file(half, to / "model.safetensors", {"format": "pt"})


def _wheels(folder: Path, python: str) -> None:
    """Download the packages that are missing there, in the versions of the lock."""
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC]
    named = [f"{name}=={version(name)}" for name in WHEELS]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
    ]
    command += ["--dest", str(folder), "--only-binary=:all:", "--python-version", python]
    command += ["--implementation=cp", *platforms, "--platform=manylinux2014_x86_64", *named]
    if subprocess.run(command).returncode:
        raise RaptError(f"wheels: got a failed download, expected {', '.join(named)}.")


if __name__ == "__main__":
    try:
        app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        app.command()(main)
        app(standalone_mode=False)
    except RaptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
