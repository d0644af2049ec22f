import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rapt import defaults, paths, table_cache
from tests.conftest import ROOT, Done, Rapt

CATEGORIES = ["--categories", "noun,verb", "--categories", "pronoun,preposition"]


@pytest.fixture
def rapt(rapt: Rapt, empty: Path, folder: Path) -> Rapt:
    """`rapt privatize`, by a table here."""
    shutil.copytree(folder, "table")
    defaults.project.cache_clear()

    def run(*args: str, stdin: bytes = b"", table: str | None = "table") -> Done:
        done = rapt("privatize", *args, *(["--table", table] if table else []), stdin=stdin)
        assert done.returncode in (0, 2)
        return done

    return run


def test_lines_from_stdin_to_stdout(rapt: Rapt) -> None:
    text = "\ufeffBob met Alice at 7!\r\n\r\nvery slow".encode()
    done = rapt("-", "-", "--eta", "0.1", *CATEGORIES, "--keep-map", "map", stdin=text)
    assert done.error == ""
    first, second, third = done.stdout.split("\r\n")
    assert first.startswith("\ufeff")
    assert first.endswith(" <number> !")
    assert (second, third) == ("", "very slow")
    assert "PRIVACY STATEMENT" in done.stderr
    assert "3 documents, 8 words: 4 got noise" in done.stderr
    assert "Alice" not in done.stderr
    assert "Alice" in Path("map").read_text()
    assert Path("map").stat().st_mode & 0o777 == 0o600


def test_it_starts_without_pytorch(folder: Path, tmp_path: Path) -> None:
    """spaCy imports it where it is installed; it takes longer than all the rest."""
    program = "import sys; from rapt.cli import app; app(standalone_mode=False); "
    program += "print(*{'torch', 'sklearn', 'pandas'} & {*sys.modules})"
    (tmp_path / "in.txt").write_text("very slow\n")
    args = ["privatize", "in.txt", "out.txt", "--eta", "0.1", "--table", str(folder)]
    run = subprocess.run(
        [sys.executable, "-c", program, *args, "--categories", "content"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    assert run.stdout == b"\n"


def test_parquet_columns(rapt: Rapt) -> None:
    table = pa.table({"a": ["Bob met Alice", None], "b": ["", "at 7"], "label": [1, 2]})
    pq.write_table(table, "in.parquet")
    columns = ["--column", "a", "--column", "b"]
    kept = ["--keep", "label"]
    done = rapt("in.parquet", "out.parquet", *columns, *kept, "--eta", "0.1", *CATEGORIES)
    assert (done.error, "Columns that leave as they are: label." in done.stderr) == ("", True)
    after = pq.read_table("out.parquet")
    assert after["a"].to_pylist()[1] is None
    assert after["b"].to_pylist()[0] == ""
    assert after["b"].to_pylist()[1].endswith(" <number>")
    assert after["label"].equals(table["label"])
    columns += ["--overwrite"]
    assert rapt("in.parquet", "out.parquet", *columns, "--eta", "0.1").error == ""
    assert pq.read_table("out.parquet").column_names == ["a", "b"]


def test_a_folder_of_parquet(rapt: Rapt) -> None:
    Path("in").mkdir()
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"review": ["Bob met Alice"] * 2}), Path("in") / name)
    done = rapt("in", "out", "--column", "review", "--eta", "0.1", *CATEGORIES)
    assert done.error == ""
    assert "4 documents, 12 words: 12 got noise" in done.stderr
    assert done.stderr.strip().endswith("What that means: out.privacy.txt")
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.parquet", "b.parquet"]


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["in.csv", "out.csv", "--eta", "nan"], "eta: got 'nan', expected a number above 0"),
        (["in.csv", "out.csv", "--eta", "inf"], "eta: got inf, expected a number above 0"),
        (["in.csv", "out.csv", "--eta", "1", "--seed", "7"], "whoever knows it can repeat"),
        (["in.csv", "out.csv", "--eta", "1", "--column", "rewiew"], "Did you mean 'review'?"),
        (
            ["in.csv", "out.csv", "--eta", "1"],
            "column: got 'text', expected review. Name yours by --column.",
        ),
        (["in.csv", "out.csv"], "--eta: got none, expected a number above 0, as 75 or 62.5. Find "),
        (
            ["in.csv", "tpyo/out.csv", "--eta", "1", "--column", "review"],
            "OUT: got 'tpyo/out.csv', expected a path in a folder that exists. Make tpyo, or ",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1", "--column", "review", "--keep-map", "tpyo/map"],
            "--keep-map: got 'tpyo/map', expected a path in a folder that exists.",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1", "--column", "review", "--keep-map", "-"],
            "--keep-map: got -, expected a file. Give its path.",
        ),
        (
            ["table", "out.csv", "--eta", "1", "--format", "csv"],
            "table: got a folder, expected a file with format csv.",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1", "--mechanism", "tem", "--parameter", "bata=1"],
            "mechanism tem: got 'bata', expected beta. Did you mean 'beta'?",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1", "--mechanism", "tem", "--parameter", "beta"],
            "parameter: got 'beta', expected NAME=NUMBER.",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1", "--column", "review", "--tagger", "nothing"],
            "tagger: got 'nothing', expected an installed spaCy model. Try: "
            "python -m spacy download nothing",
        ),
        (
            ["in.csv", "out.csv", "--eta", "1e9", "--column", "review"],
            "eta: got 1e+09, which replaces 0% of the protected words of public text, expected 10%",
        ),
        (["fr.txt", "out.txt", "--eta", "0.1"], "language: got texts in 'fr', expected 'en'."),
        (
            ["fr.txt", "out.txt", "--eta", "0.1", "--language", "de"],
            "got texts in 'fr', expected 'de'",
        ),
    ],
)
def test_what_is_not_allowed_is_one_line_and_leaves_nothing(
    rapt: Rapt, args: list[str], line: str
) -> None:
    Path("in.csv").write_text("review\nZanzibar\n")
    Path("fr.txt").write_text("La terre de Zanzibar était informe et vide dans les ténèbres.\n" * 9)
    before = set(Path().iterdir())
    done = rapt(*args)
    assert line in done.error
    assert "\n" not in done.error
    assert "Zanzibar" not in done.error
    assert set(Path().iterdir()) == before
    assert Path("in.csv").read_text() == "review\nZanzibar\n"


def test_what_is_overridden_is_said_first(rapt: Rapt) -> None:
    Path("fr.txt").write_text("La terre de Zanzibar était informe et vide dans les ténèbres.\n" * 9)
    options = ["--eta", "1e9", "--allow-weak", "--language", "fr"]
    assert rapt("fr.txt", "out.txt", *options).error == ""
    assert Path("out.txt.privacy.txt").read_text().startswith("WEAK: this level protects next to")
    assert json.loads(Path("out.txt.privacy.json").read_text())["language"] == "fr"


def test_a_preview_writes_nothing(rapt: Rapt) -> None:
    Path("in.txt").write_text("Bob met Alice at 7, very slow\n")
    before = set(Path().iterdir())
    done = rapt("in.txt", "out.txt", "--eta", "0.1", *CATEGORIES, "--preview")
    assert "Most often: ," in done.stdout and "very (1)" in done.stdout
    assert set(Path().iterdir()) == before


def test_table_and_tagger_come_from_params(rapt: Rapt) -> None:
    Path("in.txt").write_text("Bob met Alice\n")
    shutil.copy(ROOT / "params.yaml", ".")
    missing = rapt("in.txt", "out.txt", "--eta", "1", table=None).error
    assert missing.startswith("table: got 'models/tables/minilm', expected a folder with an ")
    shutil.copytree("table", "models/tables/minilm")
    assert rapt("in.txt", "out.txt", "--eta", "1", table=None).error == ""
    assert "t2t" in Path("out.txt.privacy.txt").read_text()  # as no categories are given


def test_outside_a_project_the_table_is_the_user_s(
    rapt: Rapt, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make(model: str, tagger: str, out: Path, language: str | None) -> None:
        made.append(model)
        shutil.copytree(folder, out)

    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").resolve()))
    monkeypatch.setattr(table_cache, "make", make)
    Path("in.txt").write_text("Bob met Alice\n")
    for out in ("one.txt", "two.txt"):
        assert rapt("in.txt", out, "--eta", "1", table=None).error == ""
    assert made == [paths.MINILM]
    assert len(list(Path("cache/rapt/tables").iterdir())) == 1


def test_a_stream_that_ends_early_leaves_no_release(rapt: Rapt) -> None:
    done = rapt("-", "out.txt", "--eta", "1", stdin=b"fine\nZanzibar \xff\n")
    assert done.error == (
        "stdin: line 2: got another encoding, expected UTF-8. Save it as UTF-8, or set encoding as "
        "'cp1252' (--encoding, or encoding in the task's format)."
    )
    assert not Path("out.txt").exists()
    assert rapt("-", "out.txt", "--eta", "1", stdin=b"fine\nBob\n").error == ""
    assert len(Path("out.txt").read_text().splitlines()) == 2
    assert rapt("-", "none.txt", "--eta", "1").error == "stdin: got no rows, expected one or more."


def test_what_can_be_read_once_is_released_whole(rapt: Rapt) -> None:
    """A pipe that is given by a path, as <(…); and the standard input beside a file named `-`."""
    reads, writes = os.pipe()
    os.write(writes, b"Bob met Alice\n" * 3)
    os.close(writes)
    assert rapt(f"/dev/fd/{reads}", "out.txt", "--eta", "1").error == ""
    os.close(reads)
    assert len(Path("out.txt").read_text().splitlines()) == 3
    Path("-").write_text("very slow\n")
    for out in ("-", "other.txt"):
        done = rapt("-", out, "--eta", "1", stdin=b"Bob met Alice\n" * 3)
        assert (done.error, "3 documents, 9 words" in done.stderr) == ("", True)


def test_a_column_that_is_named_twice_is_one(rapt: Rapt) -> None:
    Path("in.csv").write_text("review\nBob met Alice\n")
    columns = ["--column", "review"] * 2
    assert rapt("in.csv", "out.csv", *columns, "--eta", "1").error == ""
    assert len(Path("out.csv").read_text().splitlines()) == 2


def test_seeded_releases_are_equal(rapt: Rapt) -> None:
    args = ["-", "-", "--eta", "0.1", "--insecure-seed", "5"]
    once, again = (rapt(*args, stdin=b"Bob met Alice\n" * 3) for _ in range(2))
    assert once.stdout == again.stdout
    assert len(set(once.stdout.splitlines())) == 3
    assert "INSECURE" in once.stderr
