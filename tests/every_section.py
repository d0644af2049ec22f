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
# Changes that go together: film reviews as a task of kind generate, which is scored, and a sweep
# over a method that releases one vector for each text.
TOGETHER = {
    "generate": "tasks.movies.kind=generate; tasks.movies.references=texts; "
    "tasks.movies.label=null; studies={}; sweep.score=[movies]; tuners.probe=linear-probe",
    "whole": "methods.whole.mechanism=adept; tuners.tfidf.type=tfidf; sweep.methods=[whole]; "
    "sweep.attacked=[whole]; sweep.channels=[]; sweep.channel_inversions=[]; "
    "sweep.inversions=[]; sweep.recognitions=[]",
}


def add_public_labels(content: dict[str, Any]) -> None:
    """Give the tuned task a public one with the same classes."""
    content["tasks"]["reviews"] = copy.deepcopy(content["tasks"]["movies"])
    content["sweep"]["tasks"].append("reviews")
    content["public_labels"] = {"movies": "reviews"}


def lines(edit: str | Edit) -> list[str]:
    """Return the lines about params that were edited.

    `KEY=VALUE; ~KEY; generate` sets one, drops one, and makes the changes of this name.
    """
    content = copy.deepcopy(EVERY)
    if isinstance(edit, str):
        for change in "; ".join(TOGETHER.get(one, one) for one in edit.split("; ")).split("; "):
            key, is_set, value = change.partition("=")
            *sections, last = key.lstrip("~").split(".")
            at = content
            for name in sections:
                at = at.setdefault(name, {})
            if is_set:
                at[last] = YAML(typ="safe").load(value)
            else:
                del at[last]
    else:
        edit(content)
    with pytest.raises(RaptError) as error:
        params.validate(content)
    return str(error.value).split("\n")
