"""The combination of a provider with a local model, where it is known who is right."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt.release.ledger import Ledger
from rapt.release.text import TAGGER
from rapt.serving.combining import Combined
from rapt.serving.model import Adapted
from rapt.serving.protocol import TEXTS, Text
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.serving.conftest import Served, statement
from tests.serving.test_predict import Rapt
from tests.serving.test_predict import rapt as rapt

ROWS, HELD = 400, 100
TOLD = np.array(["bad", "great"])  # a raw word for each class


class Fake:
    """Sure that the class is what a released word says, and remembers what it was asked."""

    def __init__(self, model: Adapted, **changed: Any) -> None:
        self.contract = replace(model.contract, **{"held_out": HELD / ROWS, "plain": [], **changed})
        self.asked: list[Text] = []

    def answer(self, texts: list[Text]) -> list[list[float]]:
        assert len(texts) <= TEXTS
        self.asked += texts
        return [[0.0, 1.0] if "film" in text.words else [1.0, 0.0] for text in texts]


@pytest.fixture
def labels() -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(0).integers(2, size=ROWS)


@pytest.fixture
def mine(tmp_path: Path, folder: Path, labels: np.ndarray[Any, np.dtype[np.int64]]) -> Path:
    """Raw rows in `rows`: a word that tells 8 of 10 classes; what was made of it in `release`."""
    rng = np.random.default_rng(1)
    said = np.where(rng.random(ROWS) < 0.8, labels, 1 - labels)
    columns = {
        "example_id": [f"train-{i}" for i in range(ROWS)],
        "segment": [[0, 0]] * ROWS,
        "label": labels,
    }
    raw = [["secret", word] for word in TOLD[said]]
    files.write_parquet(tmp_path / "rows/train.parquet", pa.table(columns | {"words": raw}))
    released = [["saw", word] for word in np.array(["plot", "film"])[labels]]
    own = pa.table(columns | {"words": released})
    files.write_parquet(tmp_path / "release/seed-0/train.parquet", own)
    files.write_json(tmp_path / "release/statement.json", statement(folder))
    return tmp_path


def combined(provider: Fake, mine: Path, folder: Path) -> Combined:
    return Combined(provider, mine / "rows", mine / "release", folder, TAGGER)


def test_a_provider_who_knows_all_is_believed(model: Adapted, mine: Path, folder: Path) -> None:
    both = combined(Fake(model), mine, folder)
    texts = [["secret bad"], ["secret great"]]
    (first, second) = both(texts, [[0.0, 1.0], [1.0, 0.0]])  # against what the raw words say
    assert first[1] > 0.9 and second[0] > 0.9
    assert sum(first) == pytest.approx(1)
    assert both.weight[0] > 0
    assert "100 rows held out" in both.said()


def test_a_provider_who_knows_nothing_costs_nothing(
    model: Adapted, mine: Path, folder: Path, labels: np.ndarray[Any, np.dtype[np.int64]]
) -> None:
    path = mine / "release/seed-0/train.parquet"
    shuffled = np.random.default_rng(2).permutation(labels)
    words = pa.array([["saw", word] for word in np.array(["plot", "film"])[shuffled]])
    released = files.read_parquet(path)
    place = released.column_names.index("words")
    files.write_parquet(path, released.set_column(place, "words", words))
    both = combined(Fake(model), mine, folder)
    texts = [["secret bad"], ["secret great"]] * 2
    answers = both(texts, [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert np.argmax(answers, axis=1).tolist() == [0, 1, 0, 1]


def test_only_released_words_of_rows_held_out_are_asked_about(
    model: Adapted, mine: Path, folder: Path
) -> None:
    """Every fourth row, from the fourth on, without words beyond those that a model reads."""
    provider = Fake(model, max_tokens=1)
    combined(provider, mine, folder)
    assert len(provider.asked) == HELD
    assert all(text.words == ["saw"] and text.segment == [0] for text in provider.asked)
    whole = Fake(model)
    combined(whole, mine, folder)
    released = files.read_parquet(mine / "release/seed-0/train.parquet")["words"].to_pylist()
    assert [text.words for text in whole.asked] == released[3::4]


def test_the_command_weighs_both_and_counts_the_new_text_alone(
    model: Adapted, mine: Path, rapt: Rapt
) -> None:
    with Served(Fake(model)) as served:
        given = ("--adapter", served.url, "--combine", mine / "rows")
        done = rapt(*given, "--release", mine / "release", "--json", "Zanzibar great")
        again = rapt(*given, "film")
    assert done.error == ""
    assert "combined with a local model" in done.stderr
    assert 0 < json.loads(done.stdout)["probability"] < 1  # the provider alone says 0 or 1
    assert b'"words"' in served.received and b"zanzibar" not in served.received.lower()
    assert b"secret" not in served.received
    assert Ledger().total()[:2] == (1, 1)
    assert again.error.startswith("combine: got no --release, expected the folder of the release")


@pytest.mark.parametrize(
    ("of", "line"),
    [
        ({"held_out": 0.0}, "combine: got an adapter that was tuned on every row, expected some"),
        ({"words": None}, r"combine: got \S+ without words, expected that column"),
        ({"example_id": "other"}, r"combine: got other rows in \S+ than in \S+, expected those"),
        ({}, r"combine: got no \S+train.parquet, expected labelled rows there"),
    ],
)
def test_what_does_not_fit_is_one_line(
    model: Adapted, mine: Path, folder: Path, of: dict[str, Any], line: str
) -> None:
    path = mine / "rows/train.parquet"
    rows = files.read_parquet(path)
    if "words" in of:
        files.write_parquet(path, rows.drop_columns(["words"]))
    if "example_id" in of:
        files.write_parquet(path, rows.slice(1))
    if not of:
        path.unlink()
    with pytest.raises(RaptError, match=f"^{line}"):
        combined(Fake(model, **{k: v for k, v in of.items() if k == "held_out"}), mine, folder)
