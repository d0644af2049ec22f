"""What a flow ends with: MLflow and Prefect's pages show what it made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.progress import console
from rapt import params


def finish(experiment: params.Params) -> None:
    """Show in MLflow and on Prefect's pages what a flow made, at its end."""
    from pipelines import artifacts  # here, as what is up to date needs no Prefect

    run_in_mlflow = mirror(experiment)
    with _optional("Prefect's pages are not filled in"):
        artifacts.results(experiment, run_in_mlflow)


def mirror_if_changed(experiment: params.Params) -> None:
    """Fill in MLflow's mirror where it lacks something, which mostly needs no MLflow to see."""
    with _optional("MLflow is not up to date"):
        from rapt.results.mlflow_mirror import is_synced

        if is_synced(experiment):
            return
    mirror(experiment)


def mirror(experiment: params.Params) -> str | None:
    """Fill in MLflow's mirror; return where it shows the experiment, below its address."""
    with _optional("MLflow is not up to date"):
        from rapt.results.mlflow_mirror import sync

        return sync(experiment)
    return None


@contextmanager
def _optional(warning: str) -> Iterator[None]:
    """The results stand without this, so it may fail."""
    try:
        yield
    except Exception as error:
        console.print(f"warning: {warning}: {' '.join(str(error).split())}")
