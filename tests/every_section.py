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


def lines(edit: Edit) -> list[str]:
    content = copy.deepcopy(EVERY)
    edit(content)
    with pytest.raises(RaptError) as error:
        params.validate(content)
    return str(error.value).split("\n")
