import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from rapt import params
from rapt.commands.check import check
from rapt.commands.init import task_block
from rapt.data.config import Values
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT

EDITED = "# Mine.\n"


@pytest.fixture(autouse=True)
def shipped(workspace: Path) -> str:
    Path("presets").symlink_to(ROOT / "presets")
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    return Path("params.yaml").read_text()


@pytest.fixture
def edited(shipped: str) -> str:
    Path("params.yaml").write_text(shipped + EDITED)
    return shipped + EDITED


def load() -> params.Params:
    return params.load()


def write(path: str, *lines: str) -> str:
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def mine(rows: int = 200) -> str:
    lines = [f'"words, {i} of a text",{"no" if i % 3 else "yes"},{i % 2}' for i in range(rows)]
    return write("My Own_file.csv", "text,mood,who", *lines)


def test_an_unedited_preset_becomes_an_experiment_on_this_file_alone() -> None:
    task_block(mine(2_000), label="mood", attributes=["who"])
    p = check()
    sweep = p.sweep
    name = ["my-own-file"]
    assert sweep.tasks == sweep.train == sweep.invert == sweep.infer == list(p.tasks) == name
    assert (sweep.tuners, sweep.probes, sweep.inferences) == ([], ["linear-probe"], ["authorship"])
    task = p.tasks["my-own-file"]
    assert (task.text, task.text_pair, task.authors) == ("text", None, None)
    assert task.label and task.label.names == ["no", "yes"]
    assert task.attributes == {"who": Values(type="values", column="who", values=["0", "1"])}
    assert task.source.sha256 == {"all": files.sha256("My Own_file.csv")}  # type: ignore[union-attr]
    assert (task.rows.train, task.rows.test) == (400, 400)


def test_the_same_command_with_full_takes_all_rows_and_lora() -> None:
    said = task_block(mine(3_000), label="mood")
    assert "A first result: 400 of 2600 rows to train, 400 of 400 rows to test; tuned with" in said
    assert "`rapt preset demo --overwrite`" in said
    first = Path("params.yaml").read_text()
    said = task_block("My Own_file.csv", label="mood", full=True)
    assert "2400 of 2400 rows to train, 600 of 600 rows to test; tuned with lora and linear" in said
    p = check()
    assert (p.tasks["my-own-file"].rows.train, p.sweep.tuners, p.sweep.tune_at) == (
        None,
        ["lora"],
        ["75"],
    )
    assert list(p.tasks) == ["my-own-file"]
    task_block("My Own_file.csv", label="mood")
    assert Path("params.yaml").read_text() == first
    task_block("My Own_file.csv", label="mood", attributes=["who"])
    assert [*check().tasks["my-own-file"].attributes] == ["who"]


def test_an_experiment_that_was_edited_is_not_replaced() -> None:
    task_block(mine(), label="mood")
    with Path("params.yaml").open("a") as file:
        file.write(EDITED)
    with pytest.raises(RaptError, match=r"^tasks\.my-own-file: got a name that stands in params"):
        task_block("My Own_file.csv", label="mood", full=True)


def test_an_edited_experiment_of_fewer_rows_than_a_first_result_takes_is_told() -> None:
    """The experiment on the task alone would not pass its gate with the file's rows."""
    edited = Path("params.yaml").read_text() + "gate: {min_rows: 10}\n"
    Path("params.yaml").write_text(edited)
    task_block(mine(60), label="mood")
    with pytest.raises(RaptError, match=r"^tasks\.my-own-file: got a name that stands in params"):
        task_block("My Own_file.csv", label="mood", full=True)


def test_without_a_label_nothing_is_tuned_and_a_small_file_is_used_whole() -> None:
    task_block(mine())
    sweep, task = load().sweep, load().tasks["my-own-file"]
    assert (sweep.train, sweep.infer, task.label) == ([], [], None)
    assert (task.rows.train, task.rows.test) == (None, 50)


def test_an_edited_file_keeps_what_it_had(edited: str) -> None:
    new = task_block(mine(), label="mood", attributes=["who"])
    after = Path("params.yaml").read_text()
    begin = after.index("  my-own-file:\n")
    block = after[begin : after.index("\n  # ", begin) + 1]
    assert after.replace(block, "").replace(", my-own-file]", "]") == edited
    sweep = load().sweep
    assert sweep.tasks == ["movies", "tweets", "my-own-file"]
    assert sweep.train == sweep.invert == ["movies", "my-own-file"]
    assert sweep.infer == ["tweets", "my-own-file"]
    assert "sweep.tasks, sweep.train, sweep.invert, sweep.infer" in new


def test_the_attack_on_attributes_is_added_where_there_is_none(shipped: str) -> None:
    without = shipped.replace("infer: [tweets]", "infer: []")
    without = without.replace("inferences: [authorship]", "inferences: []")
    Path("params.yaml").write_text(without.replace("\n  authorship: authorship", ""))
    task_block(mine(), attributes=["who"])
    assert load().sweep.inferences == ["authorship"]
    assert load().attacks["authorship"].type == "authorship"


def test_lists_on_lines_of_their_own(shipped: str) -> None:
    """As `dvc exp run -S` writes them."""
    blocks = "tasks:\n    - movies\n    - tweets  # the author\n"
    Path("params.yaml").write_text(shipped.replace("tasks: [movies, tweets]\n", blocks))
    task_block(mine())
    assert f"{blocks}    - my-own-file\n" in Path("params.yaml").read_text()
    assert load().sweep.tasks == ["movies", "tweets", "my-own-file"]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n# The end.\n"])
def test_tasks_at_the_end_of_the_file_and_another_indent(shipped: str, ending: str) -> None:
    start, stop = shipped.index("\ntasks:\n"), shipped.index("\n# A model is")
    tasks = shipped[start:stop].strip("\n").replace("\n  ", "\n      ").rstrip()
    Path("params.yaml").write_text(shipped[:start] + shipped[stop:] + tasks + ending)
    task_block(mine())
    assert set(load().tasks) == {"movies", "tweets", "my-own-file"}
    assert Path("params.yaml").read_text().endswith("}" + ending)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (
            {"label": "mod"},
            "label: got 'mod', expected one of mood, text, who. Did you mean 'mood'",
        ),
        ({"text": "txt"}, "text: got 'txt', expected one of mood, text, who. Did you mean 'text'"),
        ({"attributes": ["wo"]}, "attribute: got 'wo', expected one of"),
        ({"name": "movies"}, "tasks.movies: got a name that stands in params.yaml"),
        ({"name": "My Task"}, "digits and single hyphens. Did you mean 'my-task'?"),
        ({"label": "text"}, "label: got 200 different values in column 'text', expected 2 to 20"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(edited: str, how: dict, line: str) -> None:
    with pytest.raises(RaptError) as error:
        task_block(mine(), **how)
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert Path("params.yaml").read_text() == edited


def test_copies_of_a_text_are_too_few_rows() -> None:
    """200 copies of 30 texts, each of which stands in one split alone."""
    left_out = r"\(left out: \d+ training text also in the evaluation split\)"
    with pytest.raises(RaptError, match=rf"^gate\.min_rows: got \d+ rows .*{left_out}, expected"):
        task_block(write("a.csv", "text", *(f"some words {i % 30}" for i in range(200))))


@pytest.mark.parametrize(
    ("name", "lines", "line"),
    [
        ("a.csv", ["5,secret words", "4,other words"], r"not shown.* give --no-header"),
        (
            "a.csv",
            ["x,y", "secret,1"],
            r"a\.csv: --text: got none, and no column 'text', expected one of x, y\. Name the col",
        ),
        ("a.doc", ["secret"], "got '.doc', expected one of .csv, .jsonl"),
    ],
)
def test_a_file_that_is_not_understood(name: str, lines: list[str], line: str) -> None:
    with pytest.raises(RaptError, match=line) as error:
        task_block(write(name, *lines))
    assert "secret" not in str(error.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(RaptError, match=r"^my\.csv: got No such file"):
        task_block("my.csv")


def test_a_hidden_test_split_is_passed_over() -> None:
    Path("glue").mkdir()
    for split in ("train", "validation", "test"):
        lines = [f"{split} {i},{-1 if split == 'test' else i % 2}" for i in range(60)]
        write(f"glue/{split}.csv", "sentence,label", *lines)
    task_block("glue", text="sentence")
    assert load().tasks["glue"].source.files["test"] == "glue/validation.csv"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("folder", "how", "columns"),
    [
        ("sst2", {"text": "sentence"}, ("sentence", None, ["0", "1"])),
        (
            "happydb",
            {"text": "moment", "label": "social", "attributes": ["gender"]},
            ("moment", None, ["no", "yes"]),
        ),
    ],
)
def test_folders_of_real_data(shared: Path, folder: str, how: dict, columns: tuple) -> None:
    task_block(shared / folder, **how)
    task = load().tasks[folder]
    assert task.label
    assert (task.text, task.text_pair, task.label.names) == columns
    assert (task.rows.train, task.rows.test) == (400, 400)


def split_names(task: str) -> dict[str, object]:
    return dict(load().tasks[task].source.files)  # type: ignore[union-attr]


def test_names_of_any_script_become_names_here() -> None:
    lines = [f"слова {i},{i % 2}" for i in range(200)]
    task_block(write("отзывы.csv", "text,возраст", *lines), attributes=["возраст"])
    assert list(load().tasks) == ["otzyvy"]
    assert list(load().tasks["otzyvy"].attributes or {}) == ["vozrast"]


def test_files_of_a_hub_and_upper_case_suffixes() -> None:
    Path("hub").mkdir()
    for name, start in {"train-00000-of-00002": 0, "train-00001-of-00002": 60, "TEST": 200}.items():
        lines = [f"words {i},{i % 2}" for i in range(start, start + 60)]
        write(f"hub/{name}.CSV", "text,label", *lines)
    said = task_block("hub")
    parts = ["hub/train-00000-of-00002.CSV", "hub/train-00001-of-00002.CSV"]
    assert split_names("hub") == {"train": parts, "test": "hub/TEST.CSV"}
    assert "120 of 120 rows to train, 60 of 60 rows to test" in said
    Path("spark").mkdir()
    Path("spark/_SUCCESS").touch()
    for part, rows in {"part-0-ab.snappy": 0, "part-1-ab.snappy": 150}.items():
        texts = [f"words {i}" for i in range(rows)]
        table = pa.table({"text": texts, "label": [i % 2 for i in range(rows)]})
        files.write_parquet(Path(f"spark/{part}.parquet"), table)
    task_block("spark", name="spark")
    assert len(split_names("spark")["all"]) == 2  # type: ignore[arg-type]
    Path(parts[0]).unlink()
    with pytest.raises(RaptError, match=r"got 1 files of this split, expected 2\."):
        task_block("hub", name="other")


def labelled(*labels: str, rows: int = 400) -> str:
    lines = [f"words {i},{labels[i % len(labels)]}" for i in range(rows)]
    return write("a.csv", "text,label", *lines)


def test_white_space_around_classes_does_not_count_and_case_is_asked_for() -> None:
    said = task_block(labelled("good", "good ", "bad", "good\xa0"))
    assert load().tasks["a"].label.names == ["bad", "good"]  # type: ignore[union-attr]
    assert "White space around 200 labels does not count." in said
    path = labelled("good", "Good", "bad")
    with pytest.raises(RaptError, match=r"2 classes .* case alone, expected others\. Give"):
        task_block(path, name="b")
    task_block(path, name="b", label_case="keep")
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    task_block(path, name="c", label_case="fold")
    assert load().tasks["c"].label.names == ["bad", "good"]  # type: ignore[union-attr]
    check()
    with pytest.raises(RaptError, match=r"--label-case: got 'fod', .* Did you mean 'fold'"):
        task_block(path, name="d", label_case="fod")


def test_a_rare_class_is_found_at_once() -> None:
    lines = [f"words {i},{'rare' if i < 3 else i % 2}" for i in range(300)]
    path = write("a.csv", "text,label", *lines)
    with pytest.raises(
        RaptError, match=r"got 1 classes of fewer than 5 training rows \('rare' has"
    ):
        task_block(path)
    said = task_block(path, min_class=10)
    assert "1 classes of fewer than 10 rows are left out." in said
    assert "Left out: 3 excluded" in said
    assert load().tasks["a"].label.names == ["0", "1"]  # type: ignore[union-attr]


def test_a_rarer_class_than_a_sample_has_takes_more_rows() -> None:
    lines = [f"words {i},{'pos' if i % 150 == 0 else 'neg'}" for i in range(10_000)]
    task_block(write("a.csv", "text,label", *lines))
    task = load().tasks["a"]
    assert (task.text, task.text_pair, task.label and task.label.column) == ("text", None, "label")
    assert task.label and task.label.names == ["neg", "pos"]
    assert 400 < (task.rows.train or 0) < 2_000
    check()


def test_a_gate_of_more_rows_than_a_sample_has_takes_more_rows(edited: str) -> None:
    Path("params.yaml").write_text(edited + "gate: {min_rows: 1000}\n")
    task_block(labelled("bad", "good", rows=6_000))
    rows = load().tasks["a"].rows
    assert rows.train and rows.test and min(rows.train, rows.test) >= 1_000


def test_a_file_named_as_a_method_does_not_replace_another() -> None:
    """The template has methods, embeddings and backbones of such names."""
    for name in ("a", "pct2t", "minilm"):
        Path(labelled("bad", "good")).rename(f"{name}.csv")
        task_block(f"{name}.csv")
    assert {*load().tasks} == {"a", "pct2t", "minilm"}


def test_a_class_that_only_the_test_split_has_is_found_at_once() -> None:
    Path("two").mkdir()
    for split, classes in {"train": 2, "test": 3}.items():
        lines = [f"{split} {i},{i % classes}" for i in range(90)]
        write(f"two/{split}.csv", "text,label", *lines)
    with pytest.raises(RaptError, match=r"\('2' has 0 of 90\), expected 5 of each"):
        task_block("two")
    task_block("two", min_class=1 + 4)
    assert load().tasks["two"].exclude == {"label": ["2"]}


def test_many_classes_are_taken_where_rows_allow_them() -> None:
    path = labelled(*(f"c{i}" for i in range(38)), rows=1_900)
    task_block(path)
    task = load().tasks["a"]
    assert len(task.label.names) == 38  # type: ignore[union-attr]
    assert task.rows.train == 760


def test_attributes_of_every_kind_have_targets() -> None:
    jobs = ["cook" if i % 2 else "smith" if i % 51 else f"j{i}" for i in range(1_400)]
    lines = [
        f"words {i},{i % 2},a{i % 700},{20 + i % 40 if i % 99 else '?'},{job}"
        for i, job in enumerate(jobs)
    ]
    path = write("a.csv", "text,label,author,age,job", *lines)
    said = task_block(path, attributes=["author", "age", "job"])
    targets = load().tasks["a"].attributes or {}
    assert [one.type for one in targets.values()] == ["most-frequent", "bins", "values"]
    assert "An attacker infers author: its 10 most frequent values" in said
    assert "An attacker infers age: numbers in 5 bins." in said
    assert "An attacker infers job: its 2 values, not the rarer 14 of 14 rows." in said


def test_long_texts_are_cut_and_the_sample_is_smaller() -> None:
    lines = [f"{f'w{i} ' * 300},{i % 2}" for i in range(1_000)]
    said = task_block(write("a.csv", "text,label", *lines))
    task = load().tasks["a"]
    assert task.cut_words == 128
    assert task.rows.train == 312  # 40,000 words
    assert "1000 texts are cut after 128 words, as the model reads no more (cut_words)." in said


def test_columns_that_may_name_authors_are_told_and_taken() -> None:
    lines = [f"words {i},who{i // 5},{i % 2}" for i in range(500)]
    path = write("a.csv", "text,author,label", *lines)
    assert "Values repeat in author (100 values): if one tells authors apart, add" in task_block(
        path
    )
    said = task_block(path, name="b", authors=["author"])
    assert "Values repeat" not in said
    assert load().tasks["b"].authors == ["author"]
    assert (load().tasks["b"].rows.test or 0) >= 100


def test_a_file_without_a_header_and_with_another_delimiter_and_encoding() -> None:
    Path("a.csv").write_bytes(
        "".join(f"Wörter {i}^{i}^{i % 2}\n" for i in range(200)).encode("cp1252")
    )
    options = {"header": False, "delimiter": "^", "encoding": "cp1252"}
    task_block("a.csv", text="1", label="3", **options)  # type: ignore[arg-type]
    format = load().tasks["a"].format
    assert format and (format.header, format.delimiter, format.encoding) == tuple(options.values())
