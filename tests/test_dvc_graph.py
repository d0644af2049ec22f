"""DVC's resolved graph of every preset, against rapt/grid.py and rapt/paths.py."""

import io
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from rapt import grid, params, paths
from tests.conftest import ROOT
from tests.every_section import add_public_labels
from tests.test_grid import FILLED, content

PRESETS = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))
GUARANTEES = (ROOT / "docs/guarantees.md").read_text()


def expected(p: params.Params) -> dict[str, set[Path]]:
    """Return the outs of every stage, by its address."""
    s = p.sweep
    stages = {
        "validate": {paths.EFFECTIVE},
        "gate": {paths.raw_gate("any").parent},
        "examples": {paths.EXAMPLES},
        "report": {paths.REPORT, paths.TABLES, paths.FIGURES, paths.PLOTS, paths.METRICS},
    }
    for task in s.tasks:
        stages[f"download@{task}"] = {paths.raw(task)}
        stages[f"tag@{task}"] = {paths.tagged(task)}
        stages[f"clean@{task}"] = with_words(clean(task))
        stages[f"gate-private@{task}"] = {paths.private_gate(f"{task}/any").parent}
    for task, method, eta in product(s.tasks, s.methods, s.etas):
        out = paths.release(task, f"{method}-{eta}")
        stages[f"privatize@{task}-{method}-{eta}"] = with_words(out)
    for task, (name, *_) in product(s.train, grid.synthetic(p)):
        outs = {paths.release(task, name), paths.judged(task, name)}
        stages[f"synthesize@{task}-{name}"] = outs
    for name in s.backbones:
        stages[f"backbone@{name}"] = {paths.backbone(name)}
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
        stages[f"study-privatize@{study}"] = with_words(paths.study_release(study))
        stages[f"study-gate@{study}"] = {paths.private_gate(f"studies/{study}")}
    for task in p.public_labels:
        folders = {cell.path.parent for cell in grid.public_labels(p) if cell.key == task}
        stages[f"public-labels@{task}"] = folders | {answers_by_public_labels(task)}
    for cell in grid.plan(p):
        adapter = {paths.adapter(cell.cell)} if cell.kind in grid.TUNED else set()
        scores = {cell.predictions} if cell.kind != "membership" else set()
        stages[f"{cell.stage}@{cell.key}"] = {cell.path} | adapter | scores
    return stages


def with_words(release: Path) -> set[Path]:
    """Return a release, and its statement in words beside it."""
    return {release, release.with_name(f"{release.name}.txt")}


def unprotected(p: params.Params) -> set[Path]:
    """Return the outs that hold text as it is, or what was learned from it."""
    tasks = {of(task) for of in (paths.raw, paths.tagged) for task in p.sweep.tasks}
    tasks |= {out for task in p.sweep.tasks for out in with_words(clean(task))}
    made = product(p.sweep.train, [name for name, *_ in grid.synthetic(p)])
    tasks |= {out(*of) for of in made for out in (paths.release, paths.judged)}
    attackers = product(p.sweep.recognitions, p.sweep.recognize)
    cells = grid.plan(p)
    raw = [c for c in cells if c.factors["method"] in (grid.CLEAN, grid.LOCAL)]
    read = [c for c in cells if c.kind in (grid.SCORE, *grid.ATTACKED)]
    read += [c for c in cells if c.stage == "train-synthetic"]  # answers to clean text
    learned = {paths.adapter(c.cell) for c in raw} | {c.predictions for c in [*raw, *read]}
    learned |= {answers_by_public_labels(task) for task in p.public_labels}
    return tasks | {paths.attacker(*of) for of in attackers} | learned


def answers_by_public_labels(task: str) -> Path:
    return paths.predictions(grid.PUBLIC_LABELS, task).with_suffix("")


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


# Quick tests have the demo, and a sweep with every section below.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "demo")) for n in PRESETS]
)
def test_dvc_has_the_stages_and_the_outs_of_a_preset(name: str, empty: Path) -> None:
    compare((ROOT / f"presets/{name}.yaml").read_text(encoding="utf-8"))


def test_dvc_has_the_stages_and_the_outs_of_a_full_sweep(empty: Path) -> None:
    given: Any = content(**FILLED)
    # What is written goes with none of some other lists; a preset has it.
    assert all(names for key, names in given["sweep"].items() if key != "score"), "fill every list"
    add_public_labels(given)
    text = io.StringIO()
    YAML().dump(given, text)
    compare(text.getvalue())


def test_the_page_names_the_predictions_that_stay() -> None:
    (row,) = re.findall(r"^\| what an attack, .*$", GUARANTEES, re.M)
    named = set(re.findall(r"`(?:reports/predictions/)?([a-z_]+)`", row))
    alone = {"local", grid.PUBLIC_LABELS}
    assert named == {*alone, grid.SCORE, *grid.ATTACKED} - {"membership"}
