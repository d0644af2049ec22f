"""The channel of a method and its statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rapt.privacy.channel import Channel
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import channel
from tests.stages.test_calibrate import small as small


@pytest.mark.parametrize("method", ["t2t", "pct2t"])
def test_channel_writes_the_matrix_and_its_statistics(
    small: Path, table: EmbeddingTable, method: str
) -> None:
    channel.main("minilm", method, "3")
    read = Channel.load(Path(f"models/channels/minilm/{method}-3"), len(table.words))
    found = files.read_json(f"reports/statistics/channels/minilm/{method}-3.json")
    words = files.read_parquet(f"models/channels/minilm/{method}-3/words.parquet")
    sampled = read.of(np.array(words["sampled"].to_pylist()))
    assert (found["method"], found["eta"], found["draws"]) == (method, "3", 10)
    assert (found["sampled"]["words"], found["frequent"]["words"]) == (6, 4)
    assert found["sampled"] == sampled.statistics()
    assert found["sampled"]["n_w"] == sorted(found["sampled"]["n_w"])
    assert words["row"].to_pylist()[:4] == [0, 1, 2, 3]
    digest = files.sha256("models/channels")
    channel.main("minilm", method, "3")
    assert files.sha256("models/channels") == digest
