"""The stages privatize, invert and the gates on a tiny table, in a workspace of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from rapt.privacy import release_checks
from rapt.text.table import EmbeddingTable
from rapt.tuning.inputs import read_targets
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import gate_private, gate_release, invert, privatize
from tests.conftest import NOUNS, OTHERS, ROOT, VERBS

RELEASE = Path("data/private/movies/rapt-2")
GATE = Path("reports/gates/private/movies/rapt-2.json")


@pytest.fixture
def workspace(table: EmbeddingTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred tagged texts of eight words, and params with two methods that fit the table."""
    monkeypatch.chdir(tmp_path)
    yaml = YAML(typ="safe")
    params = yaml.load(ROOT / "tests/every_section.yaml")
    for method in ("pct2t", "rapt", "rapt-mean"):
        params["methods"][method]["categories"] = ["noun", "verb"]
    yaml.dump(params, Path("params.yaml"))
    shutil.copytree(table.folder, "models/tables/minilm")
    rng = np.random.default_rng(0)
    tags = [*["NOUN"] * len(NOUNS), *["VERB"] * len(VERBS), "DET", "ADV", "PUNCT", "NUM"]
    for split in ("train", "test"):
        picks = rng.integers(len(tags), size=(100, 8))
        columns: dict[str, Any] = {
            "example_id": [f"{split}-{i:06d}" for i in range(100)],
            "words": [[[*NOUNS, *VERBS, *OTHERS][i] for i in row] for row in picks],
            "pos": [[tags[i] for i in row] for row in picks],
            "space_after": [[True] * 8] * 100,
            "identifier": [
                ["number" if i == len(tags) - 1 else None for i in row] for row in picks
            ],
            "segment": pa.array([[0] * 8] * 100, pa.list_(pa.int8())),
            "label": [0, 1] * 50,
        }
        files.write_parquet(f"data/tagged/movies/{split}.parquet", pa.table(columns))
    privatize.main("movies", "rapt", "2", "minilm", RELEASE)
    return tmp_path


def gate() -> dict[str, Any]:
    """The gate's JSON, which is written also when it fails."""
    gate_release.main(RELEASE, GATE)
    return json.loads(GATE.read_text())


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


def test_the_gate_counts_all_words_and_replays_a_sample(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_checks, "REPLAYED", 100)
    findings = gate()
    for k, seed in enumerate(findings["replaced"]):
        before, after = protected(k)
        assert seed["words"] == len(before)
        assert seed["replaced"] == sum(b != a for b, a in zip(before, after, strict=True))
        assert seed["share"] == seed["replaced"] / seed["words"]
        assert 180 < seed["replay"]["words"] <= 200
    compared = sum(seed["replay"]["words"] for seed in findings["replaced"])
    said = f"replay of {compared} of {2 * len(before)} protected words, "
    assert said in findings["expectations"][-1]["allowed"]
    assert gate() == findings


def protected(k: int) -> tuple[list[str], list[str]]:
    """The protected words of both splits, before and after."""
    pairs = []
    for split in ("train", "test"):
        tagged = files.read_parquet(f"data/tagged/movies/{split}.parquet").to_pydict()
        after = files.read_parquet(RELEASE / f"seed-{k}/{split}.parquet")["words"].to_pylist()
        texts = zip(tagged["words"], tagged["pos"], after, strict=True)
        for text in texts:
            pairs += [(b, a) for b, tag, a in zip(*text, strict=True) if tag in ("NOUN", "VERB")]
    return [before for before, _ in pairs], [after for _, after in pairs]


def test_the_gate_of_a_task_checks_all_its_releases(workspace: Path) -> None:
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    content["sweep"] |= {"methods": ["rapt"], "attacked": [], "etas": [1, 2]}
    content["sweep"] |= {"tune_at": [], "channels": [], "channel_inversions": []}
    yaml.dump(content, Path("params.yaml"))
    folder = GATE.parent
    files.write_json(folder / "rapt-3.json", {})
    for method, eta, name in (("rapt", "1", "rapt-1"), ("clean", "inf", "clean")):
        privatize.main("movies", method, eta, "minilm", RELEASE.with_name(name))
    gate_private.main("movies")
    assert {path.name for path in folder.iterdir()} == {
        "rapt-1.json",
        "rapt-2.json",
        "clean.json",
    }
    assert gate() == files.read_json(folder / "rapt-2.json")
    for eta in ("1", "2"):
        (RELEASE.with_name(f"rapt-{eta}") / "notes.txt").write_text("x")
    with pytest.raises(RaptError) as error:
        gate_private.main("movies")
    lines = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"{folder}/rapt-{eta}.json" for eta in (1, 2)
    ]
    passed = {path.stem: files.read_json(path)["passed"] for path in folder.iterdir()}
    assert passed == {"rapt-1": False, "rapt-2": False, "clean": True}


def test_privatizing_again_gives_the_same_bytes(workspace: Path) -> None:
    before = files.sha256(RELEASE)
    privatize.main("movies", "rapt", "2", "minilm", RELEASE)
    assert files.sha256(RELEASE) == before


def privatize_anew(eta: str, method: str = "rapt", **plain_tokens: Any) -> dict[str, Any]:
    """Release again with other plain tokens; returns the statement."""
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    if plain_tokens:
        content["methods"][method]["plain_tokens"].update(plain_tokens)
        yaml.dump(content, Path("params.yaml"))
    shutil.rmtree(RELEASE)
    privatize.main("movies", method, eta, "minilm", RELEASE)
    return json.loads((RELEASE / "statement.json").read_text())


def test_the_release_says_which_sequence_a_text_was_given(workspace: Path) -> None:
    statement = privatize_anew("1000000", sequences=3, choice="frequency", vocabulary=12)
    assert gate()["passed"]
    assert statement["plain_tokens"] == {"length": 10, "sequences": 3, "choice": "frequency"}
    assert statement["vocabulary"] == 12
    plain = files.read_parquet(RELEASE / "seed-0/plain.parquet").to_pydict()
    assert plain["sequence"] == [0] * 10 + [1] * 10 + [2] * 10
    targets = read_targets(RELEASE / "seed-0/plain.parquet")
    assert targets.flatten().tolist() == plain["target"]
    assert targets.shape == (3, 10)
    assert max(plain["target"]) < 12
    words = [plain["word"][start : start + 10] for start in (0, 10, 20)]
    for split in ("train", "test"):
        copy = files.read_parquet(RELEASE / f"seed-0/{split}.parquet").to_pydict()
        assert set(copy["sequence"]) == {0, 1, 2}
        assert copy["plain"] == [words[sequence] for sequence in copy["sequence"]]


def test_plain_tokens_cost_nothing(workspace: Path) -> None:
    """They are public: the statement is that of the same method without them."""
    own = ("method", "plain_tokens", "vocabulary")
    given = json.loads((RELEASE / "statement.json").read_text())
    without = privatize_anew("2", method="pct2t")
    assert not (RELEASE / "seed-0/plain.parquet").exists()
    assert without["plain_tokens"] is None
    assert without["vocabulary"] is None
    assert {k: v for k, v in given.items() if k not in own} == {
        k: v for k, v in without.items() if k not in own
    }
    assert gate()["passed"]


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


def test_more_words_than_the_table_has_are_one_line(workspace: Path) -> None:
    with pytest.raises(RaptError, match="vocabulary: got 15, expected at most the 14") as error:
        privatize_anew("2", vocabulary=15)
    assert "\n" not in str(error.value)


def test_seeds_have_their_own_noise_and_plain_words(workspace: Path) -> None:
    copies = [files.read_parquet(RELEASE / f"seed-{k}/test.parquet").to_pydict() for k in (0, 1)]
    assert copies[0]["words"] != copies[1]["words"]
    plain = [files.read_parquet(RELEASE / f"seed-{k}/plain.parquet").to_pydict() for k in (0, 1)]
    assert plain[0]["word"] != plain[1]["word"]
    statement = json.loads((RELEASE / "statement.json").read_text())
    vocabulary = sorted(NOUNS + VERBS, key=[*NOUNS, *VERBS].index)
    assert statement["vocabulary"] == len(vocabulary)
    assert [vocabulary[t] for t in plain[0]["target"]] == plain[0]["word"]
    # Each text has a privatized copy of its own.
    assert len({tuple(words) for words in copies[0]["plain"]}) > 50


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
        gate_release.main(out, GATE)


def test_a_release_with_too_little_noise_is_stopped(workspace: Path) -> None:
    tagged = {s: files.read_parquet(f"data/tagged/movies/{s}.parquet") for s in ("train", "test")}
    for split, table in tagged.items():
        originals = table["words"].to_pylist()

        def half(columns: dict[str, list[Any]], originals: list[list[str]] = originals) -> None:
            columns["words"][::2] = originals[::2]

        spoil(half, split)
    with pytest.raises(RaptError, match=r"replaced share: .*seed-1"):
        gate()


def test_half_the_noise_is_stopped_by_a_sample_of_the_words(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_checks, "REPLAYED", 250)
    assert gate()["passed"]
    statement = (RELEASE / "statement.json").read_text()
    privatize_anew("4")
    (RELEASE / "statement.json").write_text(statement)
    with pytest.raises(RaptError, match=r"replaced share: failed for 2 of 2 .*seed-0, seed-1"):
        gate()


def test_an_additional_file_is_stopped(workspace: Path) -> None:
    (RELEASE / "seed-0/notes.txt").write_text("x")
    with pytest.raises(RaptError, match=r"nothing but the release's files .*seed-0/notes.txt"):
        gate()


def test_inf_is_unprotected_and_recovered_whole(workspace: Path) -> None:
    out = Path("data/private/movies/rapt-inf")
    privatize.main("movies", "rapt", "inf", "minilm", out)
    gate_release.main(out, Path("gate.json"))
    assert json.loads(Path("gate.json").read_text())["replaced"][0]["replaced"] == 0
    invert.main("nearest", "movies", "rapt", "inf")
    cell = json.loads(Path("reports/cells/invert/nearest-movies-rapt-inf.json").read_text())
    assert cell["protection"] == "unprotected"
    assert cell["metrics"]["accuracy"]["mean"] == 1


def test_inversion_is_one_minus_the_replaced_share(workspace: Path) -> None:
    """Of the test split's protected words, as the tiny table's words are all in the table."""
    invert.main("nearest", "movies", "rapt", "2")
    cell = json.loads(Path("reports/cells/invert/nearest-movies-rapt-2.json").read_text())
    tagged = files.read_parquet("data/tagged/movies/test.parquet").to_pydict()
    after = files.read_parquet(RELEASE / "seed-0/test.parquet")["words"].to_pylist()
    same = [
        w == a
        for words, pos, released in zip(tagged["words"], tagged["pos"], after, strict=True)
        for w, tag, a in zip(words, pos, released, strict=True)
        if tag in ("NOUN", "VERB")
    ]
    assert cell["seeds"][0]["metrics"]["accuracy_protected"] == pytest.approx(np.mean(same))
    assert cell["counts"]["protected"] == len(same)


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
