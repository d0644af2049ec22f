"""Make the report from the cells that there are: `python -m stages.report`."""

import sys

from rapt import params
from rapt.reporting import mlflow_mirror, writer
from rapt.results import reader
from rapt.utils.errors import described
from stages import run


def main() -> None:
    """Drop the cells outside the plan, write the report, mirror the cells in MLflow."""
    p = params.load()
    for path in reader.prune(p):
        print(f"removed {path}: not a cell of params.yaml")
    writer.write(reader.load(p))
    try:
        mlflow_mirror.sync(p)
    except Exception as error:  # the mirror is no part of the result
        print(
            f"warning: MLflow is not up to date ({described(error)}). The report is complete; "
            "rapt sync tries again.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    run(main)
