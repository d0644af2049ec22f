"""Prefect artifacts of a flow."""

from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort
from prefect.settings import PREFECT_API_URL, temporary_settings

from pipelines import artifacts
from pipelines.graph import Stage
from pipelines.schedule import Durations, Schedule
from tests.reporting import synthetic

pytestmark = pytest.mark.slow  # they need a Prefect server


def shown() -> dict[str, Artifact]:
    """The latest artifact of each key."""
    with get_client(sync_client=True) as client:
        # The newest 200: the server has those of other tests, too.
        found = client.read_artifacts(sort=ArtifactSort.UPDATED_DESC)
    return {a.key: a for a in reversed(found) if a.key}


def test_the_bar_follows_the_schedule(server: str, tmp_path: Path) -> None:
    plan = {f"cell@{n}": Stage(f"cell@{n}", ()) for n in range(4)}
    schedule = Schedule(plan, 4, [], Durations(tmp_path))
    bar = artifacts.Bar(schedule)

    @flow
    def running() -> None:
        bar.show()
        assert shown()["stages"].data == 0
        for name in ("cell@0", "cell@1", "cell@2"):
            schedule.next()
            schedule.end(name, success=True)
        bar.show()
        assert shown()["stages"].data == 75
        assert str(shown()["stages"].description).startswith("cell: 3 of 4")

    with temporary_settings({PREFECT_API_URL: server}):
        running()


def test_a_lost_server_stops_the_bar_alone(tmp_path: Path) -> None:
    schedule = Schedule({"a": Stage("a", ())}, 1, [], Durations(tmp_path))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        artifacts.Bar(schedule).show()


def test_cells_pareto_and_mlflow_stand_beside_the_run(server: str, empty: Path) -> None:
    experiment = synthetic.write(empty)
    figures = empty / "reports/figures"
    figures.mkdir(parents=True)
    (figures / "pareto-one.svg").write_text("<svg/>")

    @flow
    def finished() -> None:
        artifacts.results(experiment, "#/experiments/1/runs/abc")

    with temporary_settings({PREFECT_API_URL: server}):
        finished()
        found = shown()
    assert found["pareto-one"].data == "data:image/svg+xml;base64,PHN2Zy8+"
    assert "http://127.0.0.1:5000/#/experiments/1/runs/abc" in str(found["mlflow"].data)
    assert "train/movies-minilm-lora-t2t-50" in str(found["cells"].data)
    assert "accuracy" in str(found["cells"].data)
    assert found["cells"].flow_run_id is not None
