"""The gate of a release lets a true one through and stops a spoilt one by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt.privacy import originals
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import privatize
from tests.conftest import NOUNS, VERBS
from tests.stages.releases import GATE, RELEASE, gate, privatize_anew
from tests.stages.releases import workspace as workspace


def spoil(change: Callable[[dict[str, list[Any]]], Any], split: str = "test") -> None:
    path = RELEASE / f"seed-1/{split}.parquet"
    columns = files.read_parquet(path).to_pydict()
    change(columns)
    files.write_parquet(path, pa.table(columns))


def test_a_release_passes_its_gate(workspace: Path) -> None:
    findings = gate()
    assert findings["passed"]
    replays = [seed["replay"] for seed in findings["replaced"]]
    assert all(r["low"] <= r["share"] <= r["high"] for r in replays)
    assert 0.1 < findings["replaced"][0]["share"] < 1


@pytest.mark.parametrize("eta", ["2", "inf"])
@pytest.mark.parametrize("number", [None, 3, -1])
def test_a_text_that_names_no_sequence_is_stopped(
    workspace: Path, eta: str, number: int | None
) -> None:
    privatize_anew(eta, sequences=3)
    spoil(lambda c: c["sequence"].__setitem__(3, number))
    with pytest.raises(RaptError, match=r"plain words are privatized: .*test-000003"):
        gate()


def test_a_text_that_names_another_sequence_is_stopped_where_it_shows(workspace: Path) -> None:
    """Without noise; with noise the words of all sequences of one category look alike."""
    privatize_anew("inf", sequences=3)
    spoil(lambda c: c["sequence"].__setitem__(3, (c["sequence"][3] + 1) % 3))
    with pytest.raises(RaptError, match=r"plain words are privatized: .*test-000003"):
        gate()


@pytest.mark.parametrize(
    ("change", "expectation"),
    [
        (lambda c: c["words"][7].pop(), "same number of words"),
        (lambda c: c["example_id"].reverse(), "same examples"),
        (lambda c: [column.pop() for column in c.values()], "same examples"),
        (
            lambda c: c["words"][3].__setitem__(0, "Anna"),
            "every word is one that the mechanism rel",
        ),
        (lambda c: c["plain"][3].pop(), "plain words are privatized"),
        (lambda c: c["plain"][3].__setitem__(0, "Anna"), "plain words are privatized"),
        (lambda c: c.update(text=c["example_id"]), "nothing but the release's files and columns"),
        (lambda c: c.update(pos=c["words"]), "nothing but the release's files and columns"),
    ],
)
def test_a_spoilt_release_is_stopped_by_name(
    workspace: Path, change: Callable[[dict[str, list[Any]]], Any], expectation: str
) -> None:
    spoil(change)
    with pytest.raises(RaptError, match=expectation) as error:
        gate()
    assert not json.loads(GATE.read_text())["passed"]
    assert not any(word in str(error.value) for word in NOUNS + VERBS)


def test_one_word_of_inf_that_is_not_the_original_is_stopped(workspace: Path) -> None:
    out = Path("data/private/movies/rapt-inf")
    privatize.main("movies", "rapt", "inf", "minilm", out)
    path = out / "seed-0/test.parquet"
    columns = files.read_parquet(path).to_pydict()
    columns["words"][5][0] = "other"
    files.write_parquet(path, pa.table(columns))
    with pytest.raises(RaptError, match=r"every word .*test-000005.* the words as before"):
        gate(out)


def test_a_release_with_too_little_noise_is_stopped(workspace: Path) -> None:
    tagged = {s: files.read_parquet(f"data/tagged/movies/{s}.parquet") for s in ("train", "test")}
    for split, table in tagged.items():
        originals = table["words"].to_pylist()

        def half(columns: dict[str, list[Any]], originals: list[list[str]] = originals) -> None:
            columns["words"][::2] = [
                [before if before in NOUNS + VERBS else after for before, after in pairs]
                for pairs in map(zip, originals[::2], columns["words"][::2])
            ]

        spoil(half, split)
    with pytest.raises(RaptError, match=r"replaced share: .*seed-1"):
        gate()


def test_half_the_noise_is_stopped_by_a_sample_of_the_words(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "REPLAYED", 250)
    assert gate()["passed"]
    statement = (RELEASE / "statement.json").read_text()
    privatize_anew("4")
    (RELEASE / "statement.json").write_text(statement)
    with pytest.raises(RaptError, match=r"replaced share: got 2 of 2 .*seed-0, seed-1"):
        gate()


def test_a_table_of_neighbours_in_the_place_of_noise_is_stopped(workspace: Path) -> None:
    """As many words are replaced as by the mechanism, by what anyone inverts."""
    share, rng = gate()["replaced"][1]["share"], np.random.default_rng(0)
    following = {
        word: words[(number + 1) % len(words)]
        for words in (NOUNS, VERBS)
        for number, word in enumerate(words)
    }
    for split in ("train", "test"):
        originals = files.read_parquet(f"data/tagged/movies/{split}.parquet")["words"].to_pylist()

        def invertible(
            columns: dict[str, list[Any]], originals: list[list[str]] = originals
        ) -> None:
            columns["words"] = [
                [
                    after if w not in following else following[w] if rng.random() < share else w
                    for w, after in zip(*pair, strict=True)
                ]
                for pair in zip(originals, columns["words"], strict=True)
            ]

        spoil(invertible, split)
    with pytest.raises(RaptError, match=r"law of the outcomes: .*seed-1: "):
        gate()


def test_a_statement_of_another_mechanism_is_stopped(workspace: Path) -> None:
    path = RELEASE / "statement.json"
    told = json.loads(path.read_text())
    for key, value in (("mechanism", "t2t"), ("categories", None), ("seeds", 1)):
        path.write_text(json.dumps(told | {key: value}))
        with pytest.raises(RaptError, match=rf"the statement is that of params.yaml: .*{key}"):
            gate()


def test_an_additional_file_is_stopped(workspace: Path) -> None:
    (RELEASE / "seed-0/notes.txt").write_text("x")
    with pytest.raises(RaptError, match=r"nothing but the release's files .*seed-0/notes.txt"):
        gate()


@pytest.mark.parametrize(("column", "value"), [("word", "Alice"), ("target", -1)])
def test_the_gate_draws_the_public_plain_words_again(
    workspace: Path, column: str, value: str | int
) -> None:
    path = RELEASE / "seed-0/plain.parquet"
    plain = files.read_parquet(path).to_pydict()
    plain[column][0] = value
    files.write_parquet(path, pa.table(plain))
    with pytest.raises(RaptError, match="plain tokens are public words"):
        gate()
