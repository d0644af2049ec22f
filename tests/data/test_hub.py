import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt.data.prepare import prepare
from rapt.tasks.base import Task
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.data.conftest import label, make_task


def hub_task(dataset: str, **changes: Any) -> Task:
    splits = {"train": "train", "test": "validation"}
    source = {"type": "hub", "dataset": dataset, "revision": "a" * 40, "splits": splits}
    content = {"source": source, "format": None, "text": "sentence"}
    content |= {"label": label("label", "negative", "positive"), **changes}
    made: Task = make_task({}, **content)
    return made


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data set in the hub's layout, on disk."""
    pytest.importorskip("datasets", reason="needs rapt[hub]")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for split, rows in {"train": ["a b", "c d", "E f"], "validation": ["e F", "g h"]}.items():
        table = pa.table({"sentence": rows, "label": [0, 1, 0][: len(rows)]})
        files.write_parquet(tmp_path / "tiny" / f"{split}.parquet", table)
    return str(tmp_path / "tiny")


def test_a_hub_data_set_goes_the_same_way(dataset: str) -> None:
    prepared = prepare("tiny", hub_task(dataset), 0)
    assert sorted(prepared.tables["train"]["text"].to_pylist()) == ["a b", "c d"]
    assert prepared.summary["rows"] == {"train": 2, "test": 2}
    assert prepared.summary["source"]["revision"] == "a" * 40


def test_tags_that_stand_as_numbers_get_their_names(dataset: str) -> None:
    import datasets

    names = ["O", "B-person"]
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "tags": datasets.List(datasets.ClassLabel(names=names)),
        }
    )
    for split, word in {"train": "Anna", "validation": "Bob"}.items():
        rows = {"tokens": [[word, "sang"]], "tags": [[1, 0]]}
        table = datasets.Dataset.from_dict(rows, features)
        table.to_parquet(f"{dataset}/{split}.parquet")
    task = hub_task(dataset, text="tokens", entities="tags", label=None)
    for split, table in prepare("tiny", task, 0).tables.items():
        assert table["entities"].to_pylist() == [["B-person", "O"]], split


def test_an_unknown_split_and_column(dataset: str) -> None:
    source = hub_task(dataset).source.model_dump()
    source["splits"] = {"train": "train", "test": "valid"}
    with pytest.raises(RaptError, match=r"got 'valid', .* validation. Did you mean"):
        prepare("tiny", hub_task(dataset, source=source), 0)
    with pytest.raises(
        RaptError, match=r"tasks\.tiny\.text: got 'sentense', expected one of label, sent"
    ):
        prepare("tiny", hub_task(dataset, text="sentense"), 0)


def test_a_data_set_that_is_not_there(dataset: str) -> None:
    with pytest.raises(RaptError, match="NotFound") as error:
        prepare("tiny", hub_task(f"{dataset}-not"), 0)
    assert "\n" not in str(error.value)


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RaptError, match=r"pip install 'rapt\[hub\]'"):
        prepare("tiny", hub_task("owner/name"), 0)
