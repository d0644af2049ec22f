"""Each module has its tests at the mirrored place."""

import ast
import re
from pathlib import Path

from tests.conftest import ROOT

PACKAGES = ("rapt", "stages", "pipelines")
# Modules whose tests stand elsewhere: the file that tests them.
ELSEWHERE = {
    "rapt/__init__.py": "tests/test_package.py",
    "rapt/param_checks.py": "tests/test_params.py",
    # The suite that runs over the registry.
    "rapt/attacks/__init__.py": "tests/attacks/test_attacks.py",
    "rapt/attacks/base.py": "tests/attacks/test_attacks.py",
    "rapt/attacks/show.py": "tests/attacks/test_attacks.py",
    # Stages that share what their tests run.
    "stages/attacked.py": "tests/stages/test_attacks.py",
    "stages/infer.py": "tests/stages/test_attacks.py",
    "stages/invert.py": "tests/stages/test_attacks.py",
    "stages/link.py": "tests/stages/test_attacks.py",
    "stages/recognize.py": "tests/stages/test_attacks.py",
    "stages/recognizer.py": "tests/stages/test_attacks.py",
    "stages/layers.py": "tests/stages/test_tuning.py",
    "stages/study.py": "tests/stages/test_tuning.py",
    "stages/train.py": "tests/stages/test_tuning.py",
    "stages/calibrate.py": "tests/stages/test_tables.py",
    "stages/channel.py": "tests/stages/test_tables.py",
    "rapt/attacks/perceptron.py": "tests/attacks/test_attributes.py",
    "rapt/attacks/recognizer.py": "tests/attacks/test_entities.py",
    "rapt/audit/corpus.py": "tests/audit/test_strata.py",
    "rapt/release/sentences.py": "tests/release/test_ledger.py",
    "rapt/audit/__init__.py": "tests/audit/test_audit.py",
    "rapt/synthesis/__init__.py": "tests/synthesis/test_base.py",
    "rapt/synthesis/author.py": "tests/synthesis/test_generator.py",
    "rapt/synthesis/statement.py": "tests/stages/test_synthesize.py",
    "rapt/privacy/base.py": "tests/privacy/test_released.py",
    "rapt/privacy/mechanisms/__init__.py": "tests/privacy/mechanisms/test_registry.py",
    # Commands run as a user runs them.
    "rapt/commands/calibrate.py": "tests/test_cli.py",
    "rapt/commands/clean.py": "tests/test_cli.py",
    "rapt/options.py": "tests/test_cli.py",
    "rapt/commands/try_.py": "tests/serving/test_trial_browser.py",
    "rapt/data/inspection.py": "tests/commands/test_init.py",
    "rapt/data/labels.py": "tests/data/test_prepare.py",
    # The suites that run over the registries of kinds of task.
    **{
        f"rapt/kinds/{module}.py": "tests/kinds/test_kinds.py"
        for module in ("__init__", "base", "choose", "classify", "generate", "messages")
    },
    **{
        f"rapt/tasks/{module}.py": "tests/tasks/test_tasks.py"
        for module in ("__init__", "base", "classify", "labelled")
    },
    "rapt/reporting/measured.py": "tests/test_extending.py",
    # Both readers of files read what people bring.
    "rapt/data/lines.py": "tests/data/test_readers.py",
    "rapt/data/nested.py": "tests/data/test_readers.py",
    "rapt/serving/loopback.py": "tests/serving/test_server.py",
    "rapt/serving/prediction_privatizer.py": "tests/serving/test_predict.py",
    "rapt/tuning/adapters.py": "tests/tuning/test_model.py",
    "rapt/tuning/loading.py": "tests/tuning/test_sharing.py",
    "rapt/tuning/strategies.py": "tests/tuning/test_gradients.py",
    "rapt/tuning/tuners.py": "tests/tuning/test_model.py",
    "rapt/tuning/train_tfidf.py": "tests/tuning/test_tfidf.py",
    "rapt/attacks/candidates.py": "tests/attacks/test_membership.py",
    # What stages do with files, which their tests lay.
    "rapt/measures/gate.py": "tests/stages/test_gate_private.py",
    # These share the page that others draw.
    "rapt/reporting/rows.py": "tests/reporting/test_tables.py",
    "rapt/reporting/word_figures.py": "tests/reporting/test_word_tables.py",
    # The places that dvc.yaml names.
    "rapt/paths.py": "tests/test_dvc_graph.py",
    # A stage that fails ends with one line.
    "stages/__init__.py": "tests/stages/test_download.py",
}
# Modules that only declare, with the reason.
DECLARATIONS = {
    "rapt/privacy/neighbours/__init__.py": "it re-exports a class",
    "pipelines/__init__.py": "it sets Prefect's environment before Prefect is imported",
}


def needs_none(path: Path) -> bool:
    """Whether a package's own module holds no more than its docstring."""
    body = ast.parse(path.read_text()).body
    return path.name == "__init__.py" and all(isinstance(part, ast.Expr) for part in body)


def mirrored(module: str) -> str:
    path = Path(module.removeprefix("rapt/"))
    return str(Path("tests") / path.parent / f"test_{path.stem.strip('_')}.py")


MODULES = sorted(
    str(path.relative_to(ROOT))
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not needs_none(path)
)


def test_each_module_has_its_tests_at_the_mirrored_place() -> None:
    assert len(MODULES) > 100
    excepted = {*ELSEWHERE, *DECLARATIONS}
    missing = [
        f"{module}: {mirrored(module)}"
        for module in MODULES
        if module not in excepted and not (ROOT / mirrored(module)).is_file()
    ]
    assert not missing


def test_each_fault_of_mutations_changes_one_line_of_the_product() -> None:
    from tests.mutations import FAULTS, TABLE

    assert len(re.findall("^-", TABLE.read_text(), re.M)) == sum(
        len(fault.right.split("\n")) for fault in FAULTS
    )
    gone = [f for f in FAULTS if (ROOT / f.file).read_text().count(f.right) != 1]
    assert not gone
    assert all((ROOT / path.partition("::")[0]).exists() for f in FAULTS for path in f.tests)


def test_the_exceptions_are_modules_that_have_no_mirrored_tests() -> None:
    for module in (*ELSEWHERE, *DECLARATIONS):
        assert module in MODULES
        assert not (ROOT / mirrored(module)).is_file()
    assert all((ROOT / tests).is_file() for tests in ELSEWHERE.values())
