"""DVC's Python API is where pipelines.dvc_api expects it, and nothing else uses it."""

import ast
import inspect
import pkgutil
from operator import attrgetter

import dvc
import pytest

from pipelines.dvc_api import CELLS, RUNS, PipelineStage, Repo
from rapt import paths
from tests.conftest import ROOT

# The parameters that rapt passes, in their order where it passes them by place.
FUNCTIONS = {
    "dvc.cli:main": ["argv"],
    "dvc.data_cloud:DataCloud.get_remote": ["self"],
    "dvc.data_cloud:DataCloud.get_remote_odb": ["self", "name", "command", "hash_name"],
    "dvc.fs:generic.copy": ["from_fs", "from_path", "to_fs", "to_path"],
    "dvc.repo:Repo": ["root_dir"],
    "dvc.repo:Repo.pull": ["self", "targets"],
    "dvc.repo:Repo.push": ["self", "targets"],
    "dvc.repo:Repo.status": ["self"],
    "dvc.repo:lock_repo": ["repo"],
    "dvc.repo.reproduce:plan_repro": ["graph", "stages"],
    "dvc.repo.stage:StageLoad.collect": ["self", "target"],
    "dvc.stage.cache:StageCache._load_cache": ["self", "key", "value"],
    "dvc.stage.cache:StageCache.restore": ["self", "stage", "pull"],
    "dvc.stage.cache:_get_cache_hash": ["cache", "key"],
    "dvc.stage.cache:_get_stage_hash": ["stage"],
    "dvc.stage.serialize:to_single_stage_lockfile": ["stage"],
    "dvc.utils.serialize:load_yaml": ["path"],
    "dvc.utils.serialize:modify_yaml": ["path"],
}
NAMES = [
    "dvc.commands.repro:CmdRepro",
    "dvc.exceptions:DvcException",
    "dvc.lock:LockError",
    "dvc.stage:PipelineStage",
    "dvc.stage.cache:RunCacheNotFoundError",
    "dvc.utils.serialize:YAMLFileCorruptedError",
]
# Of an open repository, one of its stages and one of the outs.
REPO = [
    *("config", "index.graph", "index.stages", "stage_cache", "stage.collect"),
    *("cache.local_cache_dir", "cache.legacy.fs", "cache.legacy.path", "cloud.get_remote"),
]
STAGE = ["addressing", "path_in_repo", "meta", "deps", "outs"]
OUT = ["fs_path", "def_path", "can_push", "use_cache", "hash_info"]
PACKAGES = {"dvc", "dvc_data", "dvc_objects"}


@pytest.mark.parametrize("name", [*FUNCTIONS, *NAMES])
def test_dvc_has_what_the_pipeline_uses(name: str) -> None:
    moved = f"DVC {dvc.__version__}: {name} has moved or changed; correct pipelines/dvc_api.py"
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        pytest.fail(moved, pytrace=False)
    if name in FUNCTIONS:
        parameters = list(inspect.signature(found).parameters.values())
        wanted = FUNCTIONS[name]
        named = [p.name for p in parameters if p.name in wanted]
        # What follows has a default; rapt passes by name what does not come first.
        rest = [p for p in parameters if p.name not in wanted and p.default is p.empty]
        required = [p for p in rest if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        if named != wanted or required:
            pytest.fail(moved, pytrace=False)


def test_dvc_s_objects_have_what_the_pipeline_reads() -> None:
    with Repo(str(ROOT)) as repo:
        stage = next(s for s in repo.index.stages if isinstance(s, PipelineStage))
        for found, names in ((repo, REPO), (stage, STAGE), (stage.outs[0], OUT)):
            for name in names:
                try:
                    attrgetter(name)(found)
                except AttributeError:
                    kind = type(found).__name__
                    moved = f"DVC {dvc.__version__}: {kind}.{name} has moved"
                    pytest.fail(f"{moved}; correct pipelines/dvc_api.py", pytrace=False)


def test_its_places_are_those_of_the_library() -> None:
    assert f"{paths.CELLS}/" == CELLS
    assert f"{RUNS}/train/a.json" == str(paths.run("train", "a"))


def imported_from_dvc(path: str) -> set[str]:
    """Return what a module imports from DVC, as `module:name`."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}:{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        else:
            continue
        found |= {name for name in names if name.split(".")[0].split(":")[0] in PACKAGES}
    return found


def test_one_module_uses_dvc() -> None:
    using = {
        str(path.relative_to(ROOT)): imported_from_dvc(str(path.relative_to(ROOT)))
        for room in ("rapt", "stages", "pipelines")
        for path in (ROOT / room).rglob("*.py")
    }
    using = {path: names for path, names in using.items() if names}
    assert set(using) == {"pipelines/dvc_api.py"}
    named = " ".join([*FUNCTIONS, *NAMES])
    assert not [name for name in using["pipelines/dvc_api.py"] if name not in named]
