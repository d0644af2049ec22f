"""Tuning on noisy vectors of words in place of the backbone's own tokens."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt.tuning import loading
from rapt.tuning.config import Run
from rapt.tuning.inputs import collate, read_split, tokenized
from rapt.tuning.model import load_backbone
from rapt.tuning.train import train_seed
from rapt.tuning.tuners import Full
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.conftest import reread
from tests.tuning.families import PAIRS, cell
from tests.tuning.families import folders as folders
from tests.tuning.families import release as release
from tests.tuning.families import run as run
from tests.tuning.tokenizers import WORDS

GRID, VECTORS = 2.0**-16, "vectors"


def own_vectors(folder: Path, words: list[str]) -> np.ndarray[Any, Any]:
    """The backbone's own embeddings of words of one token, as a release at η = inf has them."""
    backbone, tokenizer = load_backbone(folder)
    each = [[0]] * len(WORDS)
    columns = {"words": [[word] for word in WORDS], "segment": each, "label": [0] * len(WORDS)}
    split = tokenized(columns, tokenizer, 16)
    tokens = [
        next(token for token, text in zip(*pair, strict=True) if text)
        for pair in zip(split.tokens, split.text, strict=True)
    ]
    rows = backbone.get_input_embeddings().weight.detach()[tokens].numpy()
    table = dict(zip(WORDS, np.round(rows / GRID) * GRID, strict=True))
    return np.stack([table[word] for word in words]).astype(np.float32)


def with_vectors(of: Path, folder: Path, to: Path, noise: float = 0.0) -> Path:
    """A release without plain words, and with a vector for each word beside it."""
    statement = json.loads((of / "statement.json").read_text())
    files.write_json(to / "statement.json", statement)
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        table = files.read_parquet(of / f"seed-0/{split}.parquet").drop_columns(["plain"])
        words = table["words"].to_pylist()
        vectors = own_vectors(folder, [word for text in words for word in text])
        vectors = vectors + (noise * rng.standard_normal(vectors.shape)).astype(np.float32)
        column = files.column_of_vectors(vectors, np.array([len(text) for text in words]))
        files.write_parquet(to / f"seed-0/{split}.parquet", table.append_column(VECTORS, column))
    return to


def test_a_word_takes_one_position(folders: dict[str, Path], tmp_path: Path) -> None:
    """Also one that the backbone would split in three; its vector is read as it was written."""
    tokenizer = loading.load_tokenizer(folders["bert"])
    vectors = np.arange(6 * 32, dtype=np.float32).reshape(6, 32)
    texts = [["unlikely", "unlikely", "film"], [], ["so", "unlikely", "good"]]
    columns = {
        "words": pa.array(texts),
        "segment": pa.array([[0] * 3, [], [0, 0, 1]]),
        "label": [0] * 3,
        "vectors": files.column_of_vectors(vectors, np.array([3, 0, 3])),
    }
    files.write_parquet(tmp_path / "split.parquet", pa.table(columns))
    split = read_split(tmp_path / "split.parquet", tokenizer, 2)
    assert [[t for t in tokens if t < 0] for tokens in split.tokens] == [[-1, -2], [], [-4, -6]]
    assert [len(tokens) for tokens in split.tokens] == [4, 2, 5]
    batch = collate(split, [0, 2], 1)
    assert batch.vectors is not None
    np.testing.assert_array_equal(batch.vectors[0, 1:3], vectors[:2])
    np.testing.assert_array_equal(batch.vectors[1, [1, 3]], vectors[[3, 5]])
    assert batch.vectors.sum() == vectors[[0, 1, 3, 5]].sum()  # elsewhere it is 0


@pytest.mark.parametrize(("family", "tuner"), PAIRS)
def test_tunes_on_vectors(
    folders: dict[str, Path], release: Path, run: Run, tmp_path: Path, family: str, tuner: str
) -> None:
    noisy = with_vectors(release, folders[family], tmp_path / "release", noise=0.005)
    run = replace(cell(run, folders[family], tuner), release=noisy, reconstruction=None)
    result = train_seed(run)
    if tuner != "linear-probe":
        curve = result.curves["task_loss"]
        assert curve[-1] < curve[0]
    assert reread(run) == result.metrics["accuracy"]


def test_vectors_of_another_dimension_are_one_line(
    folders: dict[str, Path], release: Path, run: Run, tmp_path: Path
) -> None:
    with_vectors(release, folders["bert"], tmp_path)
    for split in ("train", "test"):
        path = tmp_path / f"seed-0/{split}.parquet"
        table = files.read_parquet(path)
        lengths = np.array([len(text) for text in table["words"].to_pylist()])
        column = files.column_of_vectors(np.zeros((lengths.sum(), 8), np.float32), lengths)
        table = table.drop_columns([VECTORS]).append_column(VECTORS, column)
        files.write_parquet(path, table)
    wrong = replace(run, release=tmp_path, backbone=folders["bert"], tuner=Full())
    with pytest.raises(RaptError, match=r"^vectors: got dimension 8, expected 32, .*$"):
        train_seed(replace(wrong, reconstruction=None))
