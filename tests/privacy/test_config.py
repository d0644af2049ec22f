"""The privacy sections of params.yaml: mechanisms and categories as they may be written."""

import copy
from typing import Any

import pytest
from ruamel.yaml import YAML

from rapt import params
from rapt.privacy.categories import SETS
from rapt.utils.errors import RaptError
from tests.conftest import ROOT

EVERY = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")


def method(**changes: Any) -> Any:
    content = copy.deepcopy(EVERY)
    content["methods"]["pct2t"] |= changes
    return params.validate(content).methods["pct2t"]


def test_a_mechanisms_name_stands_for_the_papers_parameters() -> None:
    assert method(mechanism="t2t").mechanism == method(mechanism={"type": "t2t"}).mechanism
    with pytest.raises(RaptError, match=r"got grid 0\.3, expected a power of two"):
        method(mechanism={"type": "token-representation", "grid": 0.3})


def test_paper_stands_for_its_four_categories_and_a_name_for_a_list() -> None:
    assert list(method(categories="paper").categories) == list(SETS["paper"])
    assert method(categories="noun").categories == ["noun"]
    with pytest.raises(RaptError, match="got noun, all, expected 'all' alone"):
        method(categories=["noun", "all"])
    assert method(categories=["noun+verb"]).categories == ["noun+verb"]
    with pytest.raises(RaptError, match=r"got 'noun\+all', expected categories without 'all'"):
        method(categories=["noun+all"])
    with pytest.raises(RaptError, match=r"got 'vreb', expected one of .* Did you mean 'verb'\?"):
        method(categories=["noun+vreb"])
