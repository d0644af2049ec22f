"""A release of token representations, from the stage that makes it to those that read it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from rapt.release.text import TAGGER
from rapt.serving.model import Adapted
from rapt.serving.prediction_privatizer import PredictionPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import backbone as backbone_stage
from stages import invert, privatize, train
from tests import tiny
from tests.conftest import NOUNS, VERBS
from tests.stages.conftest import GATE, edited, gate, put_columns

GRID = 2.0**-10


def release(eta: str, method: str = "vectors", grid: float = GRID) -> Path:
    """Release the workspace's texts anew."""
    with edited() as content:
        content["methods"]["vectors"] = content["methods"]["t2t"] | {
            "mechanism": {"type": "token-representation", "grid": grid}
        }
    out = Path(f"data/private/movies/{method}-{eta}")
    privatize.main("movies", method, eta, "minilm", out)
    return out


def copy(of: Path, split: str = "test", k: int = 1) -> tuple[list[list[str]], list[NDArray[Any]]]:
    """The words and the vectors of each text."""
    table = files.read_parquet(of / f"seed-{k}/{split}.parquet")
    words = table["words"].to_pylist()
    vectors = files.vectors_of_column(table["vectors"])
    ends = np.cumsum([len(text) for text in words])
    return words, np.split(vectors, ends[:-1])


@pytest.mark.parametrize("eta", ["2", "inf"])
def test_a_release_of_vectors_passes_its_gate(movies: Path, eta: str) -> None:
    out = release(eta)
    gate(out)
    found = files.read_json(GATE)
    assert found["passed"]
    assert (found["replaced"][0]["replaced"] == 0) == (eta == "inf")
    assert "vectors are made again" in {each["expectation"] for each in found["expectations"]}
    table = files.read_parquet(out / "seed-0/train.parquet")
    assert table.column_names == ["example_id", "segment", "words", "vectors", "label"]
    assert table["vectors"].type == pa.list_(pa.list_(pa.float32(), 8))
    before = files.sha256(out)
    release(eta)
    assert files.sha256(out) == before


def test_words_are_the_nearest_to_the_vectors(movies: Path) -> None:
    """And so those of T2T on a fine grid, by the same noise; each seed has its own."""
    out, t2t = release("2", grid=2.0**-18), release("2", "t2t")
    table = EmbeddingTable("models/tables/minilm")
    words, vectors = copy(out)
    apart = np.linalg.norm(np.concatenate(vectors)[:, None] - table.vectors, axis=2)
    nearest = [table.words[row] for row in apart.argmin(axis=1)]
    assert nearest == [word for text in words for word in text]
    assert words == files.read_parquet(t2t / "seed-1/test.parquet")["words"].to_pylist()
    assert words != copy(out, k=0)[0]


def test_the_statement_says_what_the_words_are(movies: Path) -> None:
    content = files.read_json(release("2") / "statement.json")
    assert (content["mechanism"], content["parameters"]) == ("token-representation", {"grid": GRID})
    assert content["categories"] is None
    assert content["protection"] == "d_X-privacy"
    assert "post-processing" in content["guarantee"]
    assert any("floating-point" in gap for gap in content["not_covered"])
    assert "post-processing" in Path("data/private/movies/vectors-2.txt").read_text()


def test_without_noise_they_are_the_words_own(movies: Path) -> None:
    out = release("inf")
    table = EmbeddingTable("models/tables/minilm")
    tagged = files.read_parquet("data/tagged/movies/test.parquet")["words"].to_pylist()
    words, vectors = copy(out)
    assert words == tagged
    own = table.embed([word for text in words for word in text])
    np.testing.assert_array_equal(np.concatenate(vectors), np.round(own / GRID) * GRID)
    assert files.read_json(out / "statement.json")["protection"] == "unprotected"


def test_what_float32_cannot_hold_is_one_line(movies: Path) -> None:
    line = r"^mechanism.grid: got .*, expected a larger power of two"
    with pytest.raises(RaptError, match=line) as error:
        release("2", grid=2.0**-30)
    assert "\n" not in str(error.value)


def test_a_spoilt_release_is_stopped_by_name(movies: Path) -> None:
    out = release("2")
    words, vectors = copy(out)
    vectors = [text.copy() for text in vectors]
    vectors[3][0, 0], vectors[4][7, 1] = np.nan, 0.3
    vectors[5][2] *= -1
    words[6].reverse()
    vectors[7] = vectors[7][1:]
    lengths = np.array([len(text) for text in vectors])
    spoilt = files.column_of_vectors(np.concatenate(vectors), lengths)
    put_columns(out / "seed-1/test.parquet", words=words, vectors=spoilt)
    rules = r"words are made again: .*\n.*vectors are made again: "
    with pytest.raises(RaptError, match=rules) as error:
        gate(out)
    assert not any(word in str(error.value) for word in NOUNS + VERBS)
    failed = {
        finding["expectation"]: {int(example[-6:]) for example in finding["examples"]}
        for finding in files.read_json(GATE)["expectations"]
        if not finding["passed"]
    }
    assert failed == {"words are made again": {6}, "vectors are made again": {3, 4, 5, 7}}


@pytest.mark.parametrize("spoil", ["missing", "type"])
def test_other_columns_of_vectors_are_stopped(movies: Path, spoil: str) -> None:
    out = release("inf")
    path = out / "seed-1/test.parquet"
    table = files.read_parquet(path)
    table = table.drop_columns(["vectors"])
    if spoil == "type":
        table = table.append_column("vectors", pa.array([[[0.0] * 8] * 8] * 100))
    files.write_parquet(path, table)
    with pytest.raises(RaptError, match=r"vectors are made again: got 100 of 100"):
        gate(out)


def test_other_vectors_than_the_words_own_are_stopped(movies: Path) -> None:
    out = release("inf")
    spoilt = np.concatenate(copy(out)[1])
    spoilt[24] *= -1
    column = files.column_of_vectors(spoilt, np.array([8] * 100))
    put_columns(out / "seed-1/test.parquet", vectors=column)
    with pytest.raises(RaptError, match=r"vectors are made again: .*1 .*test-000003"):
        gate(out)


def test_what_reads_words_works_as_it_is(movies: Path) -> None:
    """Inversion of the words is nearest-neighbour inversion of the vectors."""
    release("2")
    release("2", "t2t")
    metrics = []
    for method in ("vectors", "t2t"):
        invert.main("nearest", "movies", method, "2")
        cell = f"reports/cells/invert/nearest-movies-{method}-2.json"
        metrics.append(files.read_json(cell)["metrics"])
    assert metrics[0] == metrics[1]


@pytest.mark.slow
def test_from_the_release_to_a_prediction(
    movies: Path, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Privatize, gate, tune both seeds, and ask the tuned model as a user would."""
    monkeypatch.setenv("RAPT_HOME", str(movies))
    tiny.of_width(8, backbone, Path("backbone"))
    out = release("2")
    with edited() as content:
        content["backbones"]["minilm"] = {"model": "backbone", "sha256": None, "encoder": None}
        content["sweep"] |= {"methods": ["vectors"], "attacked": ["vectors"]}
        content["sweep"] |= {"channels": [], "channel_inversions": []}
        content["train"] |= {"epochs": 1, "max_tokens": 8}
    gate(out)
    backbone_stage.main("minilm")
    train.main("cell", "movies", "minilm", "lora", "vectors", "2")
    cell = files.read_json("reports/cells/train/cell.json")
    assert cell["metrics"]["accuracy"]["n"] == 2
    assert cell["protection"] == "d_X-privacy"
    adapter = "models/adapters/cell/seed-1"
    model = Adapted(Path(adapter))
    assert model.contract.statement.vectors
    privatize = PredictionPrivatizer(model.contract, 2.0, Path("models/tables/minilm"), TAGGER)
    sent, counts = privatize([["The doctor met Alice in Paris, and then what happened?"], [""]])
    assert [len(text.words) for text in sent] == [8, 0]
    assert [len(text.vectors or b"") for text in sent] == [8 * 8 * 4, 0]
    assert (counts.documents, counts.words, counts.most) == (2, 8, 8)
    for row in model.answer(sent):
        assert sum(row) == pytest.approx(1)
