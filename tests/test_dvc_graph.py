"""DVC's resolved graph of every preset, against rapt/grid.py and rapt/paths.py."""

from __future__ import annotations

import ast
import io
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from rapt import grid, params, paths, presets
from tests.conftest import ROOT
from tests.test_grid import FILLED, content

PRESETS = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))


def expected(p: params.Params) -> dict[str, set[Path]]:
    """Return the outs of every stage, by its address."""
    s = p.sweep
    stages = {
        "validate": {paths.PARAMS},
        "gate": {paths.raw_gate("any").parent},
        "examples": {paths.EXAMPLES},
        "report": {paths.REPORT, paths.TABLES, paths.FIGURES, paths.PLOTS, paths.METRICS},
    }
    for task in s.tasks:
        stages[f"download@{task}"] = {paths.raw(task)}
        stages[f"tag@{task}"] = {paths.tagged(task)}
        stages[f"clean@{task}"] = {paths.release(task, grid.CLEAN)}
        stages[f"gate-private@{task}"] = {paths.private_gate(f"{task}/any").parent}
    for task, method, eta in product(s.tasks, s.methods, s.etas):
        stages[f"privatize@{task}-{method}-{eta}"] = {paths.release(task, f"{method}-{eta}")}
    for name in s.embeddings:
        stages[f"tables@{name}"] = {paths.table(name)}
        stages[f"levels@{name}"] = {paths.levels(name)}
        stages[f"calibrate@{name}"] = {paths.calibration(name), paths.geometry(name)}
    for name, method, eta in product(s.embeddings, s.channels, s.etas):
        of = name, f"{method}-{eta}"
        outs = {paths.channel(*of), paths.channel_statistics(*of)}
        stages[f"channel@{name}-{method}-{eta}"] = outs
    for names in product(s.train, s.backbones, s.tuners, s.layers):
        stages[f"layers@{'-'.join(names)}"] = {paths.layers("-".join(names))}
    for attack, task in product(s.recognitions, s.recognize):
        stages[f"recognizer@{attack}-{task}"] = {paths.attacker(attack, task)}
    for study in p.studies:
        stages[f"study-privatize@{study}"] = {paths.study_release(study)}
        stages[f"study-gate@{study}"] = {paths.private_gate(f"studies/{study}")}
    for cell in grid.plan(p):
        adapter = {paths.adapter(cell.cell)} if cell.kind in grid.TUNED else set()
        scores = {cell.predictions} if cell.kind in (*grid.TUNED, grid.LOCAL) else set()
        stages[f"{cell.stage}@{cell.key}"] = {cell.path} | adapter | scores
    return stages


def unprotected(p: params.Params) -> set[Path]:
    """Return the outs that hold text as it is, or what was learned from it."""
    tasks = {of(task) for of in (paths.raw, paths.tagged, clean) for task in p.sweep.tasks}
    attackers = product(p.sweep.recognitions, p.sweep.recognize)
    raw = [c for c in grid.plan(p) if c.factors["method"] in (grid.CLEAN, grid.LOCAL)]
    learned = {paths.adapter(c.cell) for c in raw} | {c.predictions for c in raw}
    return tasks | {paths.attacker(*of) for of in attackers} | learned


def clean(task: str) -> Path:
    return paths.release(task, grid.CLEAN)


def compare(text: str) -> None:
    """Compare DVC's stages for a params.yaml with those that rapt expects."""
    shutil.copy(ROOT / "dvc.yaml", ".")
    Path("params.yaml").write_text(text)
    with Repo.init(no_scm=True) as repo:
        stages = repo.index.stages
        made = {s.addressing: {Path(out.def_path) for out in s.outs} for s in stages}
        assert all(stage.desc for stage in stages)
        outs = [out for stage in stages for out in stage.outs]
        kept = {Path(out.def_path) for out in outs if not out.can_push}
    p = params.validate(YAML(typ="safe").load(text))
    assert made == expected(p)
    assert kept == unprotected(p) & set.union(*made.values())


@pytest.mark.parametrize("name", PRESETS)
def test_dvc_has_the_stages_and_the_outs_of_a_preset(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = presets.text(name)
    monkeypatch.chdir(tmp_path)
    compare(text)


def test_dvc_has_the_stages_and_the_outs_of_a_full_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Any = content(**FILLED)
    assert all(given["sweep"].values()), "fill every list"
    text = io.StringIO()
    YAML().dump(given, text)
    monkeypatch.chdir(tmp_path)
    compare(text.getvalue())


# What cannot change a stage's outs. A stage depends on the values of its params, which `validate`
# writes, not on the code that checks them; and an edit of what all share would rerun all.
SHARED = (
    *("rapt/__init__.py", "rapt/paths.py", "rapt/param_types.py", "rapt/utils/"),
    "stages/__init__.py",
)
PARAMS = "rapt/params.py"
# The words of a statement, and the share that it names: only of what writes one.
STATEMENT = {"rapt/privacy/statement.py", "rapt/privacy/strength.py"}
WRITERS = {"privatize", "clean", "study-privatize"}
# The page names each attack, and runs none.
NAMED = {"report": "rapt/attacks/__init__.py"}
STAGES = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]


@cache
def imported(path: str) -> frozenset[str]:
    """The modules of ours that a module imports when it runs, within functions as well."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(place for name in _names(tree) for place in _places(name))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def _places(name: str) -> Iterator[str]:
    """The module that a dotted name is or is in, and the packages around it."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1 if parts[0] in ("rapt", "stages") else 0):
        place = "/".join(parts[:end])
        yield from (p for p in (f"{place}.py", f"{place}/__init__.py") if (ROOT / p).exists())


def needed(module: str, *ends: str) -> set[str]:
    """All that a module imports, but nothing that only `ends` do."""
    found, new = set[str](), {module}
    while new:
        found |= new
        new = {p for path in new - {*ends} for p in imported(path)} - found
    return found


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_each_module_that_can_change_its_outs(name: str) -> None:
    stage = STAGES[name].get("do", STAGES[name])
    module = stage["cmd"].partition("-m ")[2].split()[0].replace(".", "/") + ".py"
    deps = [dep for dep in stage["deps"] if dep.startswith(("rapt/", "stages/"))]
    if name == "validate":  # the modules of the sections; what their classes do is not run
        modules = {*imported(PARAMS)}
    else:
        modules = needed(module, PARAMS, "rapt/__init__.py", NAMED.get(name, "")) - {PARAMS}
        modules -= STATEMENT if name not in WRITERS else set()
    can_change = {p for p in modules if not p.startswith(SHARED) and not is_empty(p)}
    assert not {p for p in can_change if not any(f"{p}/".startswith(f"{dep}/") for dep in deps)}


def is_empty(path: str) -> bool:
    """Whether a module is no more than its docstring."""
    return len(ast.parse((ROOT / path).read_text()).body) < 2


def test_an_edit_of_a_statement_s_words_reruns_what_writes_statements() -> None:
    reached = {
        name
        for name, stage in STAGES.items()
        if any("rapt/privacy/statement.py".startswith(d) for d in stage.get("do", stage)["deps"])
    }
    assert reached == WRITERS
