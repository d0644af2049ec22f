"""A workspace with params of every section, changed as a test needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT
from tests.data.conftest import make_task

Workspace = Callable[..., Path]


@contextmanager
def edited(path: Path = Path("params.yaml")) -> Iterator[Any]:
    """Change the content of params.yaml."""
    yaml = YAML(typ="safe")
    content = yaml.load(path)
    yield content
    yaml.dump(content, path)


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train all seeds in this process, as another takes seconds to start.

    That processes change nothing has a test in tests/tuning/test_parallel.py.
    """
    here = nullcontext(SimpleNamespace(map=map))
    monkeypatch.setattr("rapt.tuning.parallel.ProcessPoolExecutor", lambda *_: here)
    for name in ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS"):  # which it sets
        monkeypatch.setenv(name, "")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Make a workspace whose task `mine` is a file of 60 short texts, or something else."""

    def make(**changes: Any) -> Path:
        yaml = YAML(typ="safe")
        content = yaml.load(ROOT / "tests/every_section.yaml")
        task = {
            "label": {"column": "y", "names": ["bad", "good"], "threshold": None},
            "attributes": {"author": {"type": "values", "column": "who", "values": ["me", "you"]}},
            "rows": {"train": None, "test": 10},
            **changes,
        }
        content["tasks"]["mine"] = make_task({"all": "mine.csv"}, **task).model_dump()
        content["sweep"] |= {"tasks": ["mine"], "train": [], "invert": []}
        content["sweep"] |= {"infer": [], "recognize": []}
        content["studies"] = {}
        content["gate"]["min_rows"] = 10
        yaml.dump(content, tmp_path / "params.yaml")
        rows = [f"secret {i},{i % 2},{'me' if i % 3 else 'you'}" for i in range(60)]
        (tmp_path / "mine.csv").write_text("\n".join(["text,y,who", *rows]) + "\n")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return make
