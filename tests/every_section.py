"""Params of every section to be edited, and the lines that tell their problems."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.utils.errors import RaptError
from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], Any]
EVERY = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")


def add_public_labels(content: dict[str, Any]) -> None:
    """Give the tuned task a public one with the same classes."""
    content["tasks"]["reviews"] = copy.deepcopy(content["tasks"]["movies"])
    content["sweep"]["tasks"].append("reviews")
    content["public_labels"] = {"movies": "reviews"}


def lines(edit: str | Edit) -> list[str]:
    """Return the lines about params that were edited: `KEY=VALUE; ~KEY` sets one, drops one."""
    content = copy.deepcopy(EVERY)
    if isinstance(edit, str):
        for change in edit.split("; "):
            key, is_set, value = change.partition("=")
            *sections, last = key.lstrip("~").split(".")
            at = content
            for name in sections:
                at = at[name]
            if is_set:
                at[last] = YAML(typ="safe").load(value)
            else:
                del at[last]
    else:
        edit(content)
    with pytest.raises(RaptError) as error:
        params.validate(content)
    return str(error.value).split("\n")
