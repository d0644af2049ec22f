"""No telemetry leaves: each tool's own word on it, with what this repository commits.

Every question is asked in a fresh process. Its environment says nothing and does not look like CI
or a test, where several tools keep quiet by themselves.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rapt import project

pytestmark = pytest.mark.slow  # a process for each question
ROOT = Path(__file__).parents[1]
STAGE = "from rapt.utils.process import no_telemetry; no_telemetry()\n"
PREFECT = "from prefect.settings.context import get_current_settings\n"
PREFECT_SAYS = PREFECT + "print(get_current_settings().server.analytics_enabled)"
PREFECT_SDK_SAYS = (
    "from prefect._internal.analytics.service import AnalyticsService\n"
    "from prefect.analytics import is_telemetry_enabled\n"
    "print(is_telemetry_enabled() and AnalyticsService()._check_server_analytics())"
)
DVC_SAYS = "from dvc.analytics import is_enabled; print(is_enabled())"
MLFLOW_SAYS = (
    "from mlflow.telemetry.utils import is_telemetry_disabled; print(not is_telemetry_disabled())"
)
HUB_SAYS = "from huggingface_hub import constants; print(not constants.HF_HUB_DISABLE_TELEMETRY)"


def ask(code: str, folder: Path) -> bool:
    """Whether telemetry is on, by the code's own last word, run in `folder`."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return {"True": True, "False": False}[done.stdout.split()[-1]]


@pytest.mark.parametrize("question", [DVC_SAYS, PREFECT_SAYS, PREFECT_SDK_SAYS])
def test_off_in_the_projects_folder_by_committed_files(question: str) -> None:
    assert not ask(question, ROOT)


@pytest.mark.parametrize("question", [DVC_SAYS, PREFECT_SAYS])
def test_off_in_a_project_of_one_s_own(question: str, tmp_path: Path) -> None:
    project.new(tmp_path / "mine")
    assert not ask(question, tmp_path / "mine")


@pytest.mark.parametrize(
    "question", [DVC_SAYS, PREFECT_SAYS, PREFECT_SDK_SAYS, MLFLOW_SAYS, HUB_SAYS]
)
def test_off_in_every_process_of_the_pipeline(question: str, tmp_path: Path) -> None:
    assert ask(question, tmp_path), "the question cannot tell on from off"
    assert not ask(STAGE + question, tmp_path)


@pytest.mark.parametrize("entry", ["stages", "pipelines"])
def test_an_entry_point_says_so_before_anything_else_is_imported(
    entry: str, tmp_path: Path
) -> None:
    assert not ask(f"import {entry}\n{HUB_SAYS}", tmp_path)


def test_great_expectations_has_nothing_to_send_with() -> None:
    """Its analytics went with version 1.24; a version that has them again must be looked at."""
    import great_expectations

    folder = Path(great_expectations.__file__).parent
    assert importlib.util.find_spec("posthog") is None
    assert not (folder / "analytics").exists()
