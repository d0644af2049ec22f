"""`python -m pipelines` for a toy project, which has no params of rapt's shape."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

import typer

from pipelines import __main__, pulse, remote, reproduce

# The main workspace's own modules before everything, like an editable install but stronger: the
# stages must run their slot's all the same.
os.environ["PYTHONPATH"] = os.getcwd()

if seconds := os.environ.get("TOY_SILENCE"):
    pulse.SILENCE = dict.fromkeys(pulse.SILENCE, float(seconds))
reproduce.check.check = lambda: SimpleNamespace(tasks={})
for flow in (remote, reproduce):
    flow.finish = flow.mirror = lambda _: None
typer.run(__main__.main)
