"""Words and tags of a task's texts."""

import pyarrow as pa
import pytest

from rapt import paths
from rapt.utils import files
from stages import tag
from tests.stages.conftest import Workspace

WITH_CHOICES = ["So", "bad", "Very", "Not", "bad"]


def test_words_replace_texts_and_those_of_other_segments_follow(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace())
    columns = {
        "example_id": ["a", "b"],
        "text": ["A good film.", "So bad"],
        "text_pair": ["Yes", None],
        "choices": [None, ["Very", "Not bad"]],
        "label": [1, 0],
        "attribute_author": ["me", "you"],
    }
    for split in ("train", "test"):
        files.write_parquet(paths.raw("mine") / f"{split}.parquet", pa.table(columns))
    tag.main("mine")
    found = files.read_parquet(paths.tagged("mine") / "test.parquet")
    assert found["words"].to_pylist() == [["A", "good", "film", ".", "Yes"], WITH_CHOICES]
    assert found["segment"].to_pylist() == [[0, 0, 0, 0, 1], [0, 0, 1, 2, 2]]
    assert found["pos"].to_pylist()[0][:4] == ["DET", "ADJ", "NOUN", "PUNCT"]
    assert found["label"].to_pylist() == [1, 0]
    assert found["attribute_author"].to_pylist() == ["me", "you"]
    assert not {"text", "text_pair", "choices"} & set(found.column_names)
