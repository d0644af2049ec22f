import json
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rapt.data.config import Format
from rapt.release import formats
from rapt.release.formats import STREAM
from rapt.release.job import Job
from rapt.release.ledger import OverBudget
from rapt.release.parts import Parts
from rapt.release.text import TextPrivatizer
from rapt.utils.errors import RaptError
from tests.release.conftest import FOUR, SENTENCE, Stopped, interrupt, left, restored

ROWS = {"a.parquet": 20, "b.parquet": 12, "c.pq": 1}
NAMES = sorted(ROWS)


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "ROWS", 4)  # so that a file has several chunks
    monkeypatch.setattr(formats, "CHUNK", 200)
    Path("in").mkdir()
    for name, count in ROWS.items():
        write(name, [SENTENCE] * count)


@pytest.fixture(scope="module")
def seeded(make: Callable[..., TextPrivatizer]) -> TextPrivatizer:
    return make(eta=0.1, categories=FOUR, insecure_seed=3)


def write(name: str, texts: list[str]) -> None:
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), Path("in") / name)


def given(out: str = "out", **options: object) -> Job:
    options = {"keep": None} | options
    made = Job(Path("in"), Path(out), Format(type="parquet"), ("text",), **options)  # type: ignore[arg-type]
    made.check()
    return made


def texts(out: str = "out") -> dict[str, list[str]]:
    return {path.name: pq.read_table(path)["text"].to_pylist() for path in Path(out).iterdir()}


def content(out: str = "out") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(out).iterdir()}


def test_every_file_becomes_one_of_the_same_name_and_all_have_one_statement(
    pct2t: TextPrivatizer,
) -> None:
    counts = given().run(pct2t)
    assert left() == {"in", "out", "out.privacy.json", "out.privacy.txt"}
    released = texts()
    assert {name: len(rows) for name, rows in released.items()} == ROWS
    assert {text.split()[-1] for rows in released.values() for text in rows} == {"!"}
    assert pq.read_table("out/a.parquet")["id"].to_pylist() == list(range(20))
    statement = json.loads(Path("out.privacy.json").read_text())
    assert statement["documents"] == counts.documents == 33
    assert statement["words"]["noise"] == 33 * 9
    assert statement["words"]["placeholders"]["number"] == 33
    assert statement["budget_of_the_longest"]["words"] == 9
    assert statement["columns"] == ["id"]
    assert "33 documents" in Path("out.privacy.txt").read_text()


def test_a_file_may_have_no_rows_as_spark_writes_them(pct2t: TextPrivatizer) -> None:
    empty = pq.read_table("in/a.parquet").slice(0, 0)
    pq.write_table(empty, "in/0.parquet")
    given().run(pct2t)
    assert {name: len(rows) for name, rows in texts().items()} == {"0.parquet": 0, **ROWS}
    assert pq.read_schema("out/0.parquet") == pq.read_schema("out/a.parquet")
    for name in ROWS:
        pq.write_table(empty, f"in/{name}")
    with pytest.raises(RaptError, match=r"^in: got no rows in its files, expected one or more\.$"):
        given("other")


def test_it_equals_its_files_one_by_one(seeded: TextPrivatizer) -> None:
    given().run(seeded)
    Path("alone").mkdir()
    released = seeded.release
    for name in NAMES:  # each has its name in its stream
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                seeded, "release", lambda t, *names, name=name, **_: released(t, name, *names)
            )
            one, out = Path("in") / name, Path("alone") / name
            Job(one, out, Format(type="parquet"), keep=None).run(seeded)
        assert (Path("alone") / name).read_bytes() == content()[name]


def test_files_may_be_released_in_any_order_and_again(seeded: TextPrivatizer) -> None:
    given().run(seeded)
    one = given("other")
    with one.opened(seeded):
        for name in (*reversed(NAMES), "b.parquet"):
            one.release(name, seeded)
        one.finish(seeded)
    assert content("other") == content("out")
    assert Path("other.privacy.json").read_bytes() == Path("out.privacy.json").read_bytes()


def test_equal_texts_get_noise_of_their_own(seeded: TextPrivatizer) -> None:
    given().run(seeded)
    released = [text for rows in texts().values() for text in rows]
    assert len(set(released)) == len(released) == 33


def test_an_interrupted_run_goes_on_within_its_file(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(given(), pct2t, 6)  # file a has 5 chunks, b has 3
    assert not Path("out").exists()
    first = Path("out.parts/files/a.parquet").read_bytes()
    begun = pq.read_table("out.parts/files/b.parquet.parts/000000")["text"].to_pylist()
    released, again = pct2t.release, []
    monkeypatch.setattr(
        pct2t, "release", lambda *args, **rest: again.append(args) or released(*args, **rest)
    )
    given().run(pct2t)
    assert [args[1:] for args in again] == [
        ("b.parquet", 1, "text"),
        ("b.parquet", 2, "text"),
        ("c.pq", 0, "text"),
    ]
    assert content()["a.parquet"] == first
    assert texts()["b.parquet"][:4] == begun
    assert left() == {"in", "out", "out.privacy.json", "out.privacy.txt"}
    assert json.loads(Path("out.privacy.json").read_text())["documents"] == 33


def test_a_run_killed_between_a_file_and_its_parts_leaves_none(pct2t: TextPrivatizer) -> None:
    interrupt(given(), pct2t, 6)
    Path("out.parts/files/a.parquet.parts").mkdir()
    given().run(pct2t)
    assert set(content()) == set(NAMES)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_killed_before_it_removed_its_parts_is_complete(
    pct2t: TextPrivatizer, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    remove = Parts.remove

    def stopped(parts: Parts, **how: bool) -> None:
        if parts.folder.name == "out.parts":
            raise Stopped
        remove(parts, **how)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Parts, "remove", stopped)
        given().run(pct2t)
    first = content()
    given(overwrite=overwrite).run(pct2t)
    assert content() == first
    assert left() == {"in", "out", "out.privacy.json", "out.privacy.txt"}
    with pytest.raises(RaptError, match="got an existing folder"):
        given()


def test_a_run_does_not_go_on_with_another_input_or_other_options(
    pct2t: TextPrivatizer, make: Callable[..., TextPrivatizer]
) -> None:
    interrupt(given(), pct2t, 6)
    with pytest.raises(RaptError, match=r"^out.parts: got another eta,"):
        given().run(make(eta=0.2, categories=FOUR))
    write("d.parquet", [SENTENCE])
    with pytest.raises(RaptError, match=r"^out.parts: got another list of files,"):
        given().run(pct2t)
    Path("in/d.parquet").unlink()
    write("a.parquet", [SENTENCE] * 19)
    with pytest.raises(RaptError, match=r"^in/a.parquet: got another content than when"):
        given().run(pct2t)
    write("a.parquet", [SENTENCE] * 20)
    given().run(pct2t)
    assert set(content()) == set(NAMES)


def test_maps_restore_the_words_and_are_private(pct2t: TextPrivatizer) -> None:
    interrupt(given(map=Path("maps")), pct2t, 6)
    given(map=Path("maps")).run(pct2t)
    assert stat.S_IMODE(Path("maps").stat().st_mode) == 0o700
    assert set(content("maps")) == {f"{name}.jsonl" for name in NAMES}
    for name, released in texts().items():
        assert restored(released, Path(f"maps/{name}.jsonl")) == {SENTENCE}


@pytest.mark.parametrize("old", [{}, {"a.parquet.jsonl": b"old"}])
def test_a_refusal_at_the_end_leaves_no_original(
    old: dict[str, bytes], make: Callable[..., TextPrivatizer]
) -> None:
    """One text has 20 releases in a file, and 33 in all of them. An old map stays as it was."""
    for name, lines in old.items():
        Path("maps").mkdir()
        (Path("maps") / name).write_bytes(lines)
    with pytest.raises(OverBudget):
        given(map=Path("maps"), overwrite=True).run(make(eta=0.1, categories=FOUR, budget="25x"))
    assert left() == {"in", *(["maps"] if old else [])}
    assert not old or content("maps") == old


def test_what_no_reader_takes_for_data_is_passed_over(pct2t: TextPrivatizer) -> None:
    Path("in/_SUCCESS").touch()
    Path("in/.a.parquet.crc").touch()
    given().run(pct2t)
    assert set(content()) == set(NAMES)


def add_folder() -> None:
    Path("in/year=2020").mkdir()


def add_csv() -> None:
    Path("in/z.csv").write_text("text\nZanzibar\n")


def add_broken() -> None:
    Path("in/z.parquet").write_text("Zanzibar")


def add_other_column() -> None:
    pq.write_table(pa.table({"texts": ["Zanzibar"]}), "in/z.parquet")


def remove_all() -> None:
    for path in Path("in").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (add_folder, "in/year=2020: got a folder, expected files with suffix .parquet, .pq in in."),
        (add_csv, "in/z.csv: got no Parquet file, expected files with suffix .parquet, .pq in in."),
        (add_broken, "in/z.parquet: got another format or a broken file, expected Parquet."),
        (add_other_column, "in/z.parquet: column: got 'text', expected texts"),
        (remove_all, "in: got an empty folder"),
    ],
)
def test_what_does_not_belong_there_is_one_line_before_anything_is_done(
    change: Callable[[], None], line: str
) -> None:
    change()
    with pytest.raises(RaptError) as raised:
        given()
    assert str(raised.value).startswith(line)
    assert "Zanzibar" not in str(raised.value)
    assert left() == {"in"}


@pytest.mark.parametrize("out", ["in", "in/out", "."])
def test_nothing_is_written_into_what_is_read(out: str) -> None:
    with pytest.raises(RaptError, match="lie in one another"):
        given(out, overwrite=True)
    with pytest.raises(RaptError, match="lie in one another"):
        given(map=Path(out), overwrite=True)


def test_a_folder_does_not_go_to_a_stream() -> None:
    with pytest.raises(RaptError, match=r"^OUT: got -, expected a folder"):
        given(str(STREAM))


def test_parquet_does_not_go_to_a_stream_where_each_part_would_be_a_file() -> None:
    line = r"^OUT: got - with format parquet, expected a file\. Give its path\.$"
    with pytest.raises(RaptError, match=line):
        Job(Path("in/a.parquet"), STREAM, Format(type="parquet")).check()


def test_what_stands_is_replaced_only_where_it_is_a_release(pct2t: TextPrivatizer) -> None:
    Path("out").mkdir()
    Path("out/old.parquet").touch()
    with pytest.raises(RaptError, match="got an existing folder"):
        given()
    Path("out/mine.txt").touch()
    with pytest.raises(RaptError, match=r"^out/mine.txt: got no Parquet file"):
        given(overwrite=True)
    Path("out/mine.txt").unlink()
    given(overwrite=True).run(pct2t)
    assert set(content()) == set(NAMES)
