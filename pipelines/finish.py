"""The end of a flow: its results in MLflow and on Prefect's pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.progress import console
from rapt import params


def finish(experiment: params.Params) -> None:
    """Show a finished flow's results in MLflow and on Prefect's pages."""
    from pipelines import artifacts  # here, as a flow that is up to date needs no Prefect

    run_in_mlflow = mirror(experiment)
    with _optional("Prefect's pages are not filled in"):
        artifacts.results(experiment, run_in_mlflow)


def mirror_if_changed(experiment: params.Params) -> None:
    """Update MLflow's mirror if it lacks something; the check mostly needs no MLflow."""
    with _optional("MLflow is not up to date"):
        from rapt.reporting.mlflow_mirror import is_synced

        if is_synced(experiment):
            return
    mirror(experiment)


def mirror(experiment: params.Params) -> str | None:
    """Update MLflow's mirror; return the experiment's path below its address, None if it fails."""
    with _optional("MLflow is not up to date"):
        from rapt.reporting.mlflow_mirror import sync

        return sync(experiment)
    return None


@contextmanager
def _optional(warning: str) -> Iterator[None]:
    """Turn an error into a warning, as the results do not depend on this step."""
    try:
        yield
    except Exception as error:
        console.print(f"warning: {warning}: {' '.join(str(error).split())}")
