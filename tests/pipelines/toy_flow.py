"""`python -m pipelines` for a toy project, which has no params of rapt's shape."""

import contextlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

import typer

from pipelines import __main__
from rapt import params

# The main workspace's own modules before everything, like an editable install but stronger: the
# stages must run their slot's all the same.
os.environ["PYTHONPATH"] = os.getcwd()

if seconds := os.environ.get("TOY_SILENCE"):
    from pipelines import heartbeat  # Prefect, which a flow with nothing to do never imports

    heartbeat.SILENCE = dict.fromkeys(heartbeat.SILENCE, float(seconds))
load, mirror = params.load, __main__.mirror
params.load = lambda: SimpleNamespace(tasks={})
__main__.check.of_files = __main__.check.of_what_runs = lambda _: []


def mirror_elsewhere(_: object) -> None:
    """Fill in MLflow from a folder with an experiment of rapt's shape, if there is one."""
    if folder := os.environ.get("TOY_MLFLOW"):
        with contextlib.chdir(folder):
            mirror(load())


__main__.finish = __main__.mirror = mirror_elsewhere
typer.run(__main__.main)
