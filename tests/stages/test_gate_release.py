"""The gate of a release lets a true one through and stops a spoilt one by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt.measures import gate as release_gate
from rapt.measures.gate import SPLITS, originals
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import NOUNS, VERBS
from tests.stages.conftest import GATE, RELEASE, gate, privatize_anew


def spoil(change: Callable[[dict[str, list[Any]]], Any], split: str = "test") -> None:
    path = RELEASE / f"seed-1/{split}.parquet"
    columns = files.read_parquet(path).to_pydict()
    change(columns)
    files.write_parquet(path, pa.table(columns))


def test_a_release_passes_its_gate(movies: Path) -> None:
    findings = gate()
    assert findings["passed"]
    assert [seed["ties"] for seed in findings["replaced"]] == [0, 0]
    assert 0.1 < findings["replaced"][0]["share"] < 1


def raw(is_raw: Callable[[int], bool]) -> Callable[[], None]:
    """Release the protected words of some rows as they are."""

    def plant() -> None:
        for split in SPLITS:
            own = files.read_parquet(f"data/tagged/movies/{split}.parquet")["words"].to_pylist()

            def change(columns: dict[str, list[Any]], own: list[list[str]] = own) -> None:
                for row, (text, new) in enumerate(zip(own, columns["words"], strict=True)):
                    for at, word in enumerate(text):
                        if is_raw(row) and word in NOUNS + VERBS:
                            new[at] = word

            spoil(change, split)

    return plant


def turned(*names: str) -> Callable[[], None]:
    """Shift columns by a row."""

    def change(columns: dict[str, list[Any]]) -> None:
        columns.update({name: [*columns[name][1:], columns[name][0]] for name in names})

    return lambda: spoil(change)


def other_eta() -> None:
    """Release the second seed at a hardly larger η, under the old statement."""
    kept = Path("kept")
    shutil.copytree(RELEASE, kept)
    privatize_anew("2.2")
    shutil.rmtree(kept / "seed-1")
    shutil.copytree(RELEASE / "seed-1", kept / "seed-1")
    shutil.rmtree(RELEASE)
    kept.rename(RELEASE)


def spoilt(change: Callable[[dict[str, list[Any]]], Any]) -> Callable[[], None]:
    return lambda: spoil(change)


def text(column: str, value: Any) -> Callable[[], None]:
    """Put a value of a text's own."""
    return spoilt(lambda c: c[column].__setitem__(3, value))


def sequence(eta: str, number: int | None) -> Callable[[], None]:
    """Give a text another sequence of plain words, of three; 0: the next one."""

    def plant() -> None:
        privatize_anew(eta, sequences=3)
        spoil(
            lambda c: c["sequence"].__setitem__(
                3, (c["sequence"][3] + 1) % 3 if number == 0 else number
            )
        )

    return plant


def other_word_of_inf() -> None:
    privatize_anew("inf")
    spoil(lambda c: c["words"][5].__setitem__(0, "other"))


def told(**facts: Any) -> Callable[[], None]:
    """Let the statement say something else."""
    path = RELEASE / "statement.json"
    return lambda: files.write_json(path, files.read_json(path) | facts)


def plain_word(column: str, value: Any) -> Callable[[], None]:
    """Change one of the public plain words."""

    def plant() -> None:
        path = RELEASE / "seed-0/plain.parquet"
        plain = files.read_parquet(path).to_pydict()
        plain[column][0] = value
        files.write_parquet(path, pa.table(plain))

    return plant


def raw_plain_words() -> None:
    own = files.read_parquet(RELEASE / "seed-1/plain.parquet")["word"].to_pylist()
    spoil(lambda c: c.update(plain=[own] * len(c["plain"])))


WORDS, PLAIN = "words are made again: ", "plain words are made again: "
COLUMNS, SAME = "the columns are a release's: ", "same examples: "
BESIDE, STATEMENT = "labels, segments and spacing: ", "the statement is that of params.yaml: .*"
PLANTED: dict[str, tuple[Callable[[], object], str]] = {
    "10 % of the rows raw": (raw(lambda row: row % 10 == 4), WORDS),
    "5 % of the rows raw": (raw(lambda row: row % 20 == 7), WORDS),
    "the last rows raw": (raw(lambda row: row > 97), WORDS),
    "a hardly larger eta for one seed": (other_eta, WORDS),
    "one other word of inf": (other_word_of_inf, f"{WORDS}.*test-000005"),
    "a word less": (spoilt(lambda c: c["words"][7].pop()), WORDS),
    "an unknown word": (spoilt(lambda c: c["words"][3].__setitem__(0, "Anna")), WORDS),
    "no words": (text("words", None), "words are there: .*test-000003"),
    "labels shifted by a row": (turned("label"), BESIDE),
    "two labels swapped": (
        spoilt(lambda c: c["label"].__setitem__(slice(2), c["label"][1::-1])),
        BESIDE,
    ),
    "a label of no class": (text("label", 2), "labels are of the set: .*test-000003"),
    "a segment of another text": (spoilt(lambda c: c["segment"][3].__setitem__(0, 1)), BESIDE),
    "rows shifted": (turned("example_id", "words", "plain", "label"), SAME),
    "other examples": (spoilt(lambda c: c["example_id"].reverse()), SAME),
    "a row less": (spoilt(lambda c: [column.pop() for column in c.values()]), SAME),
    "a row twice": (
        spoilt(lambda c: [column.append(column[0]) for column in c.values()]),
        "as many rows as the text: ",
    ),
    "an example twice": (text("example_id", "test-000004"), "each example is there once: "),
    "the text": (spoilt(lambda c: c.update(text=c["words"])), rf"{COLUMNS}got 1 of \d .*\(text\)"),
    "the tags": (spoilt(lambda c: c.update(pos=c["words"])), COLUMNS),
    "plain words raw": (raw_plain_words, PLAIN),
    "a plain word less": (spoilt(lambda c: c["plain"][3].pop()), PLAIN),
    "an unknown plain word": (spoilt(lambda c: c["plain"][3].__setitem__(0, "Anna")), PLAIN),
    **{
        f"sequence {number} of eta {eta}": (sequence(eta, number), f"{PLAIN}.*test-000003")
        for eta in ("2", "inf")
        for number in (None, 3, -1, 0)
    },
    "another plain word": (plain_word("word", "Alice"), "plain tokens are public words: "),
    "a plain word of no row": (plain_word("target", -1), "plain tokens are public words: "),
    "another mechanism told": (told(mechanism="t2t"), f"{STATEMENT}mechanism"),
    "other categories told": (told(categories=None), f"{STATEMENT}categories"),
    "fewer seeds told": (told(seeds=1), f"{STATEMENT}seeds"),
    "one file more": (
        lambda: (RELEASE / "seed-0/notes.txt").touch(),
        "nothing but the release's files: .*seed-0/notes.txt",
    ),
}


@pytest.mark.parametrize(("plant", "line"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_stopped_by_name(
    movies: Path, plant: Callable[[], object], line: str
) -> None:
    plant()
    with pytest.raises(RaptError, match=line) as error:
        gate()
    assert not files.read_json(GATE)["passed"]
    assert not any(word in str(error.value) for word in NOUNS + VERBS)


@pytest.mark.parametrize(
    "name", ["5 % of the rows raw", "10 % of the rows raw", "the last rows raw"]
)
def test_a_planted_fault_is_stopped_by_a_sample(
    movies: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the texts are made again; of the others all words must be possible."""
    monkeypatch.setattr(release_gate, "AGAIN", 400)
    monkeypatch.setattr(release_gate, "LEAST", 2)
    assert gate()["passed"]
    PLANTED[name][0]()
    with pytest.raises(RaptError, match=WORDS):
        gate()


def test_a_near_tie_is_told_from_a_raw_word(movies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an eta as good as equal makes of a word may be released in its place."""
    monkeypatch.setattr(release_gate, "NEAR", 0.2)
    law = json.dumps([{"type": "t2t"}, None, "2"])
    source = originals("minilm", law, "movies", 0)
    texts = source.copy(0, "test")
    near = [list(words) for words in source.privatizer.at(2.4).privatize(texts)]
    exact = list(source.privatizer.privatize(texts))
    counts = release_gate._ties(source.privatizer, list(zip(texts, near, strict=True)))
    differ = [sum(map(str.__ne__, *pair)) for pair in zip(near, exact, strict=True)]
    assert counts == differ
    assert sum(differ) > 10
    raw_words = [list(text.words) for text in texts]
    assert None in release_gate._ties(source.privatizer, list(zip(texts, raw_words, strict=True)))
