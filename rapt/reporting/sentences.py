"""The public example sentences that ship with the package: never rows of a data set."""

from __future__ import annotations

import json
from importlib.resources import files


def sentences() -> list[dict[str, str]]:
    """Each sentence with its `text` and its `source`."""
    return json.loads(files("rapt.reporting").joinpath("sentences.json").read_text())
