"""Every mechanism, format, category scheme and statement, through the command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rapt.data.config import Format
from rapt.privacy.fates import NOISE
from rapt.privacy.mechanisms import MECHANISMS, WordMechanism
from rapt.release.command import prepared, summary
from rapt.release.formats import FORMATS
from rapt.release.text import TextPrivatizer
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.release.conftest import VOCABULARY

MADE = [name for name, kind in MECHANISMS.items() if issubclass(kind, WordMechanism)]
SCHEMES = [None, "content", "paper", "all", "noun+verb"]
EXCLUDED = {"none": SCHEMES[1:], "required": [None], "any": []}  # by what a mechanism takes
CASES = [
    (name, scheme)
    for name in MADE
    for scheme in SCHEMES
    if scheme not in EXCLUDED[MECHANISMS[name].categories]
]
TEXTS = ["Bob met Alice in Paris at 7", "", "oh the great film"]
EXTRA = "secret"  # a column that is not named


KEPT = {"film", "bob", "alice", "paris"}  # and two words of each other category
KEPT |= {word for tag, words in VOCABULARY.items() if tag != "NOUN" for word in words[:2]}
MORE = ["SYM", "SYM", "SCONJ", "PART"]  # of the first words, for the plain table lacks them


@pytest.fixture(scope="module")
def every_category(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of all categories, and few: Imola's linear program grows with their third power."""
    made = tmp_path_factory.mktemp("table") / "table"
    shutil.copytree(folder, made)
    content = files.read_json(made / "words.json")
    some = [at for at, word in enumerate(content["word"]) if word in KEPT]
    content = {key: [values[at] for at in some] for key, values in content.items()}
    for at, tag in enumerate(MORE):
        content["pos"][at] = [*content["pos"][at], tag]
    files.write_json(made / "words.json", content)
    np.save(made / "vectors.npy", np.load(made / "vectors.npy")[some])
    return made


def write(path: Path, format: str) -> None:
    rows = [{"text": text, EXTRA: "1980", "stars": "5"} for text in TEXTS]
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif format == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif format == "text":
        path.write_text("".join(text + "\n" for text in TEXTS))
    else:
        sign = "," if format == "csv" else "\t"
        lines = [sign.join(rows[0]), *(sign.join(row.values()) for row in rows)]
        path.write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_conformance_of_every_release(
    name: str, scheme: str | None, every_category: Path, tmp_path: Path
) -> None:
    made = None  # by the options, which are the same, so that its law is measured once
    for format in FORMATS:
        path, out = tmp_path / f"in.{format}", tmp_path / f"out.{format}"
        write(path, format)
        job, privatizer = prepared(
            path,
            out,
            format=format,
            column=None,
            keep=[] if format == "text" else ["stars"],
            keep_all=False,
            keep_map=None,
            overwrite=False,
            table=every_category,
            tagger=None,
            seed=None,
            categories=[scheme] if scheme else None,
            parameter=["size=2"] if name == "custext" else None,
            detector=None,
            mechanism=name,
            eta=200.0 if name == "truncated-gumbel" else 3.0,
            language="any",
            allow_weak=True,
        )
        made = made or privatizer
        assert privatizer == made
        counts = job.run(made)
        line = summary(out, counts, seeded=False)
        statement = json.loads((tmp_path / f"out.{format}.privacy.json").read_text())
        assert (counts.documents, statement["mechanism"]) == (3, name)
        assert "\n" not in line
        assert f"{counts.fates[NOISE]} got noise" in line
        assert "Proper nouns" in (tmp_path / f"out.{format}.privacy.txt").read_text()
        assert {path.name for path in tmp_path.glob("*.parts")} == set()
        released = out.read_bytes()
        if format == "parquet":
            released = str(pq.read_table(out).to_pylist()).encode()
        assert EXTRA.encode() not in released
        assert b"1980" not in released
        assert format == "text" or b"stars" in released
        if scheme:
            assert b"<number>" in released


JOINS = ["alice%paris%film", "Alice|Paris|Bob", "user_alice_city", "/Bob/", 'bob":"paris":"met']


@pytest.mark.parametrize("categories", [("content",), ("paper",), ("all",), None])
def test_no_join_of_known_words_is_released_as_it_stands(
    make: Callable[..., TextPrivatizer], categories: tuple[str, ...] | None, every_category: Path
) -> None:
    """At an η without noise to speak of, so that only the protection of a join makes a change."""
    at = TextPrivatizer(
        table=every_category, eta=1e-9, categories=categories, language="any", allow_weak=True
    )
    for join in JOINS:
        (words,) = at.release([join])
        assert all(word.fate == NOISE for word in words if any(map(str.isalpha, word.original)))


@pytest.mark.parametrize("word", ["alice", "boy", "god", "wow"])
@pytest.mark.parametrize("tag", ["X", "INTJ"])
def test_content_protects_what_the_tagger_knows_no_part_of_speech_of(
    every_category: Path, word: str, tag: str
) -> None:
    at = TextPrivatizer(table=every_category, eta=1.0, categories=["content"]).privatizer
    (group,) = at.text([word], [tag]).groups
    assert len(at.rows_of(group)) == len(at.table.words)


@pytest.mark.parametrize("scheme", ["content", "paper", "all"])
def test_digits_never_pass(every_category: Path, scheme: str) -> None:
    at = TextPrivatizer(table=every_category, eta=1e9, categories=[scheme], allow_weak=True)
    (words,) = at.release(["At 7 he met 42 or 1,003 at B52 , not two"])
    assert {w.released for w in words if any(map(str.isdigit, w.original))} == {"<number>"}


@pytest.mark.parametrize("categories", [None, ("content",)])
def test_names_become_placeholders(
    every_category: Path, categories: tuple[str, ...] | None
) -> None:
    text = "Alice Smith met Bob in Nairobi, and Alice liked the film."
    options = {"table": every_category, "eta": 1e9, "allow_weak": True, "categories": categories}
    shown = {
        names: [word.released for word in TextPrivatizer(names=names, **options).release([text])[0]]
        for names in ("noise", "placeholder", "numbered")
    }
    assert shown["placeholder"].count("<name>") == 5
    assert [word for word in shown["numbered"] if word.startswith("<name-")] == [
        "<name-1>",
        "<name-2>",
        "<name-3>",
        "<name-4>",
        "<name-1>",
    ]
    assert not any("<name" in word for word in shown["noise"])
    with pytest.raises(RaptError, match=r"names: got 'placeholders', expected .* Did you mean"):
        TextPrivatizer(names="placeholders", **options)


@pytest.mark.parametrize("value", [b"\xff", 7, [7], {}, {"content": "text"}, [{"role": "user"}]])
def test_what_is_no_text_is_one_line(make: Callable[..., TextPrivatizer], value: object) -> None:
    mapper = make(eta=1.0).mapper()
    with pytest.raises(RaptError, match=r"^texts: got .+ at place 1, expected text, null, a list"):
        mapper({"text": ["one", value]})


def test_a_column_may_hold_lists_chats_bytes_and_nothing(
    make: Callable[..., TextPrivatizer],
) -> None:
    part = {"type": "text", "text": "Paris"}
    chat = [{"role": "user", "content": "Bob"}, {"role": "assistant", "content": [part]}]
    values = [
        "Bob",
        None,
        float("nan"),
        ["Bob", None, "Paris"],
        chat,
        b"Bob",
        np.array(["Bob"]),
        [],
    ]
    released = make(eta=0.1, insecure_seed=1).mapper(["x"])({"x": values, "id": [1]})
    assert released["id"] == [1]
    text, none, nan, texts, (user, assistant), raw, array, empty = released["x"]
    assert none is None and nan != nan and empty == []
    assert (user["role"], assistant["role"]) == ("user", "assistant")
    assert assistant["content"][0]["type"] == "text"
    new = [text, texts[0], texts[2], user["content"], assistant["content"][0]["text"], *array]
    assert len(texts) == 3 and texts[1] is None and isinstance(raw, bytes)
    assert all(isinstance(one, str) and one not in ("Bob", "Paris", "") for one in new)
    with pytest.raises(RaptError, match=r"^map: got single rows, expected batches"):
        make(eta=0.1).mapper(["x"])({"x": chat})


def test_a_column_to_keep_must_be_there(tmp_path: Path) -> None:
    for name in ("csv", "tsv", "jsonl", "parquet"):
        path, format = tmp_path / f"in.{name}", Format.model_validate({"type": name})
        write(path, name)
        reader = FORMATS[name](path, ("text",), ("star",), format)
        with pytest.raises(RaptError, match=r"keep: got 'star', expected one of .*'stars'"):
            list(reader.chunks())
