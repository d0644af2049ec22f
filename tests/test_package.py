"""The package that `pip install rapt` installs: public names, and a core without PyTorch."""

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rapt
from rapt import table_cache
from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT

# Packages of the extras, which no core command may need.
EXTRAS = "torch transformers peft sklearn pandas dvc prefect mlflow great_expectations vl_convert"
CORE = (
    "rapt.cli, rapt.audit, rapt.measures.calibration, rapt.release.command, "
    "rapt.serving.prediction_privatizer, rapt.serving.trial, rapt.text.embeddings"
)
HIDE = f"""
import sys
class Hidden:
    def find_spec(name, path=None, target=None):
        if name in {EXTRAS.split()}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden)
"""


def test_the_examples_of_the_package_run(
    table: EmbeddingTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a table of 18 words instead of MiniLM's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(model: str, tagger: str, out: Path, language: str | None) -> None:
        shutil.copytree(table.folder, out)
        for name in ("vectors", "pieces"):  # with its words as near to each other as MiniLM's
            np.save(out / f"{name}.npy", np.load(out / f"{name}.npy") / 20)

    monkeypatch.setattr(table_cache, "make", make)
    done = doctest.testmod(rapt)
    assert done.attempted > 10
    assert done.failed == 0


def test_the_public_names_are_there() -> None:
    assert sorted(rapt.__all__) == sorted(rapt._PUBLIC)
    assert all(getattr(rapt, name) for name in rapt.__all__)
    with pytest.raises(AttributeError, match=r"^module 'rapt' has no attribute 'Privatiser'$"):
        rapt.Privatiser  # type: ignore[attr-defined]  # noqa: B018


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_importing_the_package_imports_nothing_else() -> None:
    done = python("import sys, rapt; print([n for n in sys.modules if n.startswith('rapt.')])")
    assert done.stdout == "[]\n", done.stderr


def test_the_core_needs_none_of_the_extras() -> None:
    """They are hidden, as spaCy imports PyTorch if it is installed."""
    done = python(f"{HIDE}\nimport {CORE}")
    assert done.returncode == 0, done.stderr
