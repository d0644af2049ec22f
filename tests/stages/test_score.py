"""Sources whose entities are privatized, and the scores of what is written of them."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from rapt import params, paths
from rapt.results import predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import download, gate_private, local, privatize, score, tag
from tests.conftest import NOUNS
from tests.stages.conftest import Workspace, put_columns

RELEASE = Path("data/private/mine/t2t-2")
FACTORS = ("mine", "minilm", "lora", "t2t", "2")
PREDICTIONS = Path("reports/predictions/train/cell.parquet")


@pytest.fixture
def released(workspace: Workspace, table: EmbeddingTable) -> Path:
    """Sources of two entities and a text that mentions them, released by T2T."""
    root = workspace(
        **{"kind": "generate", "type": "jsonl", "text": "input", "references": "texts"},
        **{"protect": "entities", "group": "seen", "label": None, "attributes": None},
    )
    pairs = [(one, other) for one in NOUNS for other in NOUNS if one != other]
    rows = [
        {
            "input": [f"Prof_{one} | knows | {other}", f"{other} | age | 7"],
            "texts": [f"Prof {one} knows {other} of age 7 .", f"{other} is known ."],
            "seen": bool(i % 2),
        }
        for i, (one, other) in enumerate(pairs)
    ]
    (root / "mine.csv").write_text("\n".join(map(json.dumps, rows)))
    shutil.copytree(table.folder, "models/tables/minilm")
    for stage in (download, tag):
        stage.main("mine")
    privatize.main("mine", "t2t", "2", "minilm", RELEASE)
    return root


def write(texts: list[str]) -> None:
    rows = files.read_parquet(RELEASE / "seed-0/test.parquet")
    predictions.write_texts(PREDICTIONS, rows, [texts, texts])


def failed() -> list[str]:
    """The expectations of the gate that fail."""
    report = gate_private.compare(RELEASE, params.load(), "mine", "t2t", "2", "minilm")
    return [e["expectation"] for e in report["expectations"] if not e["passed"]]


def test_the_release_says_what_it_protects_and_passes_its_gate(released: Path) -> None:
    statement = files.read_json(RELEASE / "statement.json")
    assert (statement["protect"], statement["spacing"]) == ("entities", "as in the texts")
    assert statement["guarantee"].startswith("Of entities and their mentions: ")
    assert statement["words"]["shared"] > 0
    train = files.read_parquet(RELEASE / "seed-0/train.parquet")
    entities = 3 * len(train)
    assert sum(statement["mentions"].values()) == entities
    # Every second text mentions one entity of three.
    assert statement["mentions"]["none"] == entities // 3
    gaps = " ".join(statement["not_covered"])
    assert f"Of {entities} entities the texts mention 0 in part and {entities // 3} in" in gaps
    assert not failed()


def test_a_mention_that_was_released_otherwise_fails_the_gate(released: Path) -> None:
    path = RELEASE / "seed-1/train.parquet"
    words = files.read_parquet(path)["words"].to_pylist()
    noise = files.read_parquet("data/tagged/mine/train.parquet")["noise"].to_pylist()
    for text, own in zip(words, noise, strict=True):
        at = next((at for at, of in enumerate(own) if 0 <= of < at), None)
        if at is not None:
            text[at] = next(noun for noun in NOUNS if noun != text[at])
            break
    put_columns(path, words=words)
    assert "words are made again" in failed()


def test_text_in_the_place_of_spacing_fails_the_gate(released: Path) -> None:
    words = files.read_parquet("data/tagged/mine/train.parquet")["words"]
    put_columns(RELEASE / "seed-1/train.parquet", space_after=words)
    assert failed() == ["labels, segments and spacing"]


def test_a_file_that_says_no_word_has_noise_fails_the_gate(released: Path) -> None:
    for split in ("train", "test"):
        path = Path(f"data/tagged/mine/{split}.parquet")
        none = [[-1] * len(words) for words in files.read_parquet(path)["words"].to_pylist()]
        put_columns(path, noise=pa.array(none, pa.list_(pa.int32())))
    privatize.main("mine", "t2t", "2", "minilm", RELEASE)
    assert failed()


def test_the_loss_of_a_source_is_that_of_all_its_texts(released: Path) -> None:
    """Three entity words, and two texts: with each of them the source is released anew."""
    statement = files.read_json(RELEASE / "statement.json")
    tagged = files.read_parquet("data/tagged/mine/train.parquet").to_pylist()
    most: Counter[str] = Counter()
    for row in tagged:
        own = {of for of in row["noise"] if of >= 0}
        source = " ".join(w for w, k in zip(row["words"], row["segment"], strict=True) if k == 0)
        most[source] += len(own)
    assert statement["budget_of_the_longest"]["words"] == statement["seeds"] * max(most.values())
    gaps = " ".join(statement["not_covered"])
    assert "The signs that part triples." in gaps
    assert "they are released as the same word" in gaps
    assert "those of entities" in RELEASE.with_name("t2t-2.txt").read_text()


def test_entities_are_put_back_before_the_texts_are_scored(released: Path) -> None:
    """The model copies what it was sent: its score is that of the originals."""
    sent = files.read_parquet(RELEASE / "seed-0/test.parquet").to_pylist()
    raw = files.read_parquet(paths.raw("mine") / "test.parquet").to_pylist()
    noise = [
        row["noise"] for row in files.read_parquet("data/tagged/mine/test.parquet").to_pylist()
    ]
    words = [
        [word for word, of in zip(row["words"], own, strict=True) if of >= 0]
        for row, own in zip(sent, noise, strict=True)
    ]
    write([f"{one} {two} knows {three} of age {four} ." for one, two, three, _, four in words])
    score.main("cell", *FACTORS)
    restored = predictions.read_texts(Path("reports/predictions/score/cell.parquet"))
    right = [
        text.casefold() == row["references"][0].casefold()
        for text, row in zip(restored[0], raw, strict=True)
    ]
    assert sum(right) / len(right) > 0.5  # but for collisions
    cell = files.read_json("reports/cells/score/cell.json")
    found = {name: metric["mean"] for name, metric in cell["metrics"].items()}
    assert found["entity_recall"] > 0.5
    assert {"bleu_of_seen", "bleu_of_not-seen", "ter", "chrf", "bleu_lower", "collisions"} <= set(
        found
    )
    assert cell["metrics"]["bleu"]["low"] <= found["bleu"] <= cell["metrics"]["bleu"]["high"]
    # A wrong restore is seen: texts without any of the originals score less.
    write(["zzz" for _ in sent])
    score.main("cell", *FACTORS)
    worse = files.read_json("reports/cells/score/cell.json")["metrics"]
    assert worse["bleu"]["mean"] < found["bleu"] / 2
    assert worse["entity_recall"]["mean"] == 0


def test_what_is_written_of_clean_text_has_nothing_to_put_back(released: Path) -> None:
    privatize.main("mine", "clean", "inf", "minilm", Path("data/private/mine/clean"))
    write(["x" for _ in range(10)])
    score.main("cell", "mine", "minilm", "lora", "clean", "inf")
    cell = files.read_json("reports/cells/score/cell.json")
    assert cell["protection"] == "unprotected"
    assert "collisions" not in cell["metrics"]


def test_the_secret_map_is_in_no_file(released: Path) -> None:
    before = {path for path in Path().rglob("*") if path.is_file()}
    write(["x" for _ in range(10)])
    score.main("cell", *FACTORS)
    made = {path for path in Path().rglob("*") if path.is_file()} - before
    assert {path.as_posix() for path in made if not path.as_posix().startswith(".rapt")} == {
        PREDICTIONS.as_posix(),
        "reports/predictions/score/cell.parquet",  # on the user's machine: push: false
        "reports/cells/score/cell.json",
    }
    assert "noun" not in Path("reports/cells/score/cell.json").read_text()


def test_who_sends_nothing_hands_over_the_source(released: Path) -> None:
    local.main("mine")
    cell = files.read_json("reports/cells/local/mine.json")
    assert cell["protection"] == "nothing sent"
    assert 0 < cell["metrics"]["bleu"]["mean"] < 1
    texts = predictions.read_texts(Path("reports/predictions/local/mine.parquet"))[0]
    assert texts[0].startswith("Prof noun")
    assert "|" not in "".join(texts)
