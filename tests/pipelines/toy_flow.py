"""`python -m pipelines.MODULE` for a toy project, which has no params of rapt's shape."""

import importlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import typer

# The main workspace's own modules before everything, like an editable install but stronger: the
# stages must run their slot's all the same.
os.environ["PYTHONPATH"] = os.getcwd()

flow = importlib.import_module(f"pipelines.{sys.argv.pop(1)}")
flow.check.check = lambda: None
flow.finish = flow.mirror = lambda _: None
typer.run(flow.main)
