"""Properties of the pipeline, read from dvc.yaml itself."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

STAGES: dict[str, dict[str, Any]] = {
    name: stage.get("do", {}) | stage if "do" in stage else stage
    for name, stage in YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].items()
}
PROVIDER = [name for name, s in STAGES.items() if s.get("meta", {}).get("side") == "provider"]
# Computed only from public vocabularies and the mechanism.
PUBLIC = ("models/tables/", "models/channels/", "models/backbones/")
# Modules that cannot change a result: the package's lazy names, batches, the device, reading
# params, mapping and writing files, progress, mirroring.
NO_DEPENDENCY = {
    "rapt/__init__.py",
    *(f"rapt/utils/{m}.py" for m in ("batches", "device", "errors", "files")),
    *(f"rapt/utils/{m}.py" for m in ("memmap", "process", "progress", "registry")),
    *("rapt/param_errors.py", "rapt/param_types.py", "rapt/params.py", "rapt/paths.py"),
    "rapt/reporting/mlflow_mirror.py",
}
# The words of a statement, and the share that it names: only of the stages that write one.
STATEMENT = {Path("rapt/measures/statement.py"), Path("rapt/measures/strength.py")}
WRITERS = {"privatize", "clean", "study-privatize"}


def paths(stage: dict[str, Any], key: str) -> list[str]:
    return [path if isinstance(path, str) else next(iter(path)) for path in stage.get(key, [])]


def params(stage: dict[str, Any]) -> list[str]:
    """Return the keys of params that a stage reads; none for a whole file."""
    return [key for file in stage.get("params", []) for keys in file.values() for key in keys or ()]


def module_of(stage: dict[str, Any]) -> Path:
    words = stage["cmd"].split()
    assert words[:3] == ["exec", "python", "-m"]  # exec: a killed dvc takes its stage with it
    return Path(words[3].replace(".", "/") + ".py")


def imported(module: Path, asked: str | None = None) -> set[Path]:
    """Return the project's modules that a module imports, at once or later.

    With `asked`, the source of a stage, a method of rapt/tasks counts if it is called there: each
    imports what it needs by itself.
    """
    found, todo = set(), [module]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += imported_itself(path, asked if path.parts[:2] == ("rapt", "tasks") else None)
    return found


@cache
def imported_itself(path: Path, asked: str | None = None) -> list[Path]:
    """Return the project's modules that the lines of a module import, as `asked`."""
    if str(path) in NO_DEPENDENCY:
        return []
    tree = ast.parse((ROOT / path).read_text())
    types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    uncalled = {
        node
        for method in ast.walk(tree)
        if asked is not None
        if isinstance(method, ast.FunctionDef) and f".{method.name}(" not in asked
        for node in ast.walk(method)
    }
    names = []
    for node in set(ast.walk(tree)) - types - uncalled:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    bases = [Path(name.replace(".", "/")) for name in names]
    modules = [path for base in bases for path in (base.with_suffix(".py"), base / "__init__.py")]
    return [module for module in modules if (ROOT / module).is_file()]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_its_code_and_on_no_other(name: str) -> None:
    stage = STAGES[name]
    code = {Path(p) for p in paths(stage, "deps") if p.startswith(("rapt", "stages"))}
    callers = {module_of(stage), Path("rapt/data/prepare.py")}
    asked = "".join((ROOT / m).read_text() for m in callers & imported(module_of(stage), ""))
    read = imported(module_of(stage), asked)
    if "attacks.${item.attack}" in params(stage):
        read |= imported(Path("rapt/attacks/__init__.py"))  # params.yaml selects the attack
    if "synthesizers.${item.synthesizer}" in params(stage):
        read |= imported(Path("rapt/synthesis/__init__.py"))
    if {"tasks", "tasks.${item.task}"} & {*params(stage)}:  # it selects the kind of task
        read |= imported(Path("rapt/tasks/__init__.py"), asked)
    needed = {m for m in read if str(m) not in NO_DEPENDENCY and m.name != "__init__.py"}
    needed -= STATEMENT if name not in WRITERS else set()
    if name == "validate":
        # Its result depends on these, and on the sections with parameters in params.yaml.
        its = ("params", "param_errors", "param_types", "paths", "grid", "attacks/base")
        its += ("privacy/categories", "privacy/mechanisms/base", "privacy/streams")
        needed |= {Path(f"rapt/{m}.py") for m in its}
        needed |= {Path(f"rapt/{m}/config.py") for m in ("data", "privacy", "tuning")}
        needed |= {Path(f"rapt/tuning/{m}.py") for m in ("strategies", "tuners")}
        for room in ("kinds", "synthesis", "tasks"):
            needed |= {p.relative_to(ROOT) for p in (ROOT / "rapt" / room).glob("[!_]*.py")}
    if name == "report":  # it prints what each attacker knows
        needed |= {p.relative_to(ROOT) for p in (ROOT / "rapt/attacks").glob("[!_]*.py")}
    uncovered = {m for m in needed if not any(m == c or c in m.parents for c in code)}
    assert not uncovered
    data = {c for c in code if (ROOT / c).is_file() and c.suffix != ".py"}
    unused = {c for c in code - data if not any(m == c or c in m.parents for m in needed)}
    assert not unused


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_says_what_it_does_and_can_be_cached(name: str) -> None:
    assert STAGES[name]["desc"]
    assert not {"always_changed", "frozen"} & set(STAGES[name])
    outs = [out for out in STAGES[name]["outs"] if isinstance(out, dict)]
    assert not [out for out in outs if "persist" in next(iter(out.values()))]


def test_the_provider_s_stages_are_those_that_tune_on_what_is_protected() -> None:
    assert PROVIDER == ["train", "probe", "denoise", "study"]


def test_the_clean_text_stays_with_the_user() -> None:
    """Its release and its adapters reach no remote, and no stage of the provider reads them."""
    for name, stage in STAGES.items():
        for out in stage["outs"]:
            path = out if isinstance(out, str) else next(iter(out))
            if re.search(r"^(data|models)/.*clean$", path):
                assert isinstance(out, dict) and out[path]["push"] is False, name
        if name in PROVIDER:
            assert not [dep for dep in paths(stage, "deps") if "clean" in dep]
    assert {name for name in STAGES if "clean" in name} == {
        *("clean", "train-clean", "probe-clean", "invert-clean", "infer-clean"),
        *("recognize-clean", "link-clean", "membership-clean", "score-clean"),
    }


def test_synthetic_text_lies_beside_clean_text_and_stays_with_the_user() -> None:
    assert not [out for out in STAGES["synthesize"]["outs"] if isinstance(out, str)]
    assert not {"synthesize", "train-synthetic"} & {*PROVIDER}
    for name in PROVIDER:
        assert not [dep for dep in paths(STAGES[name], "deps") if "synthesizer" in dep]


def test_no_provider_side_stage_depends_on_raw_or_tagged_data() -> None:
    """Neither directly, nor by its params or its code."""
    for name in PROVIDER:
        stage = STAGES[name]
        for path in [*paths(stage, "deps"), stage["cmd"]]:
            assert "data/raw" not in path
            assert "data/tagged" not in path
        data = [p for p in paths(stage, "deps") if p.startswith(("data", "models"))]
        assert all(p.startswith(("data/private/", "models/adapters/", *PUBLIC)) for p in data)
        for module in imported(module_of(stage)):
            source = (ROOT / module).read_text()
            if module.parts[0] == "stages" or "tuning" in module.parts:
                assert "data/raw" not in source
                assert "data/tagged" not in source
                assert "rapt.data" not in source
                # Rules on words read no file: a policy asks them of clean text, at home.
                others = source.replace("from rapt.text import detectors", "")
                assert "rapt.text" not in others


def test_what_the_provider_may_know_of_the_mechanism_is_made_without_any_text() -> None:
    for name in ("tables", "channel"):
        assert all(not p.startswith("data/") or p == "data/params.json" for p in deps_above(name))


def deps_above(name: str) -> list[str]:
    """Return the deps of a stage and of all stages upstream, by the folders' names."""
    deps = paths(STAGES[name], "deps")
    made = [
        n for n in STAGES for out in paths(STAGES[n], "outs") if out in deps and n != "validate"
    ]
    return deps + [dep for n in made for dep in deps_above(n)]


def test_text_and_what_attackers_learn_from_it_is_never_pushed() -> None:
    for name, stage in STAGES.items():
        for out in stage["outs"]:
            path = out if isinstance(out, str) else next(iter(out))
            if path.startswith(("data/raw", "data/tagged", "models/attackers")):
                assert isinstance(out, dict), name
                assert out[path]["push"] is False


def test_training_waits_for_the_gate_of_its_release() -> None:
    for name in (*PROVIDER, "train-clean", "probe-clean", "train-synthetic"):
        assert any(p.startswith("reports/gates/private/") for p in paths(STAGES[name], "deps"))


def test_every_stage_comes_after_validation() -> None:
    def shape(path: str) -> str:
        return re.sub(r"\$\{[^}]*\}", "*", path)

    made = {shape(path): name for name, stage in STAGES.items() for path in paths(stage, "outs")}

    def roots(name: str) -> set[str]:
        deps = [shape(p) for p in paths(STAGES[name], "deps")]
        deps += [path for file in STAGES[name]["params"] for path in file]
        above = {n for out, n in made.items() for p in deps if f"{out}/".startswith(f"{p}/")}
        return set().union(*map(roots, above)) if above else {name}

    assert {root for name in STAGES for root in roots(name)} == {"validate"}


def test_library_imports_without_the_tools_around_it() -> None:
    """rapt/ runs on a bare host: no DVC, Prefect, MLflow, Great Expectations at import."""
    for path in (ROOT / "rapt").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            tools = {"dvc", "prefect", "mlflow", "great_expectations"}
            assert not tools & {name.split(".")[0] for name in names}, path
