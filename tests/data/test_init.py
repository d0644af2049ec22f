import shutil
from pathlib import Path

import pytest

from rapt import files, params
from rapt.data.init import task_block
from rapt.data.prepare import prepare
from rapt.errors import RaptError
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def shipped(workspace: Path) -> str:
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    return Path("params.yaml").read_text()


def load() -> params.Params:
    return params.load()


def write(path: str, *lines: str) -> str:
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def mine() -> str:
    rows = [f'"words, {i} of a text",{"no" if i % 3 else "yes"},{i % 2}' for i in range(10)]
    return write("My Own_file.csv", "Text,mood,who", *rows)


def test_a_csv_becomes_a_task_that_runs(shipped: str) -> None:
    new = task_block(mine(), label="mood", attributes=["who"])
    assert new.name == "my-own-file"
    assert str(new).startswith("added tasks.my-own-file to params.yaml; next:\n1. look at ")
    assert "\n2. add my-own-file to sweep.tasks, sweep.train, sweep.infer\n" in str(new)
    task = load().tasks["my-own-file"]
    assert task.text == "Text"
    assert task.label and task.label.names == ["no", "yes"]
    assert task.attributes and task.authors is None
    assert task.attributes["who"] == params.Values(type="values", column="who", values=["0", "1"])
    assert task.source.sha256 == {"all": files.sha256("My Own_file.csv")}  # type: ignore[union-attr]
    assert prepare("my-own-file", task, 0).summary["rows"] == {"train": 8, "test": 2}


def test_the_rest_of_the_file_stays_as_it_was(shipped: str) -> None:
    task_block(mine(), label="mood")
    before, after = shipped.splitlines(), Path("params.yaml").read_text().splitlines()
    start = after.index("  my-own-file:")
    end = start + len(after) - len(before)
    assert after[:start] + after[end:] == before
    assert after[end:][1].startswith("# What the first gate")
    assert all(line.startswith("    ") for line in after[start + 1 : end])


@pytest.mark.parametrize("ending", ["", "\n", "\n\n# The end.\n"])
def test_tasks_at_the_end_of_the_file_and_another_indent(shipped: str, ending: str) -> None:
    start, stop = shipped.index("\ntasks:\n"), shipped.index("\n# What the first gate")
    tasks = shipped[start:stop].strip("\n").replace("\n  ", "\n      ").rstrip()
    Path("params.yaml").write_text(shipped[:start] + shipped[stop:] + tasks + ending)
    task_block(mine())
    assert set(load().tasks) == {"movies", "tweets", "my-own-file"}
    assert Path("params.yaml").read_text().endswith(ending if len(ending) > 1 else "\n")


@pytest.mark.parametrize(
    ("header", "line", "found"),
    [
        ("review,stars", "it was a good film,{i}", ("review", None)),
        ("id,was", "{i},it was quite a good film {i}", ("was", None)),
        ("sentence1,sentence2", "one {i},two {i}", ("sentence1", "sentence2")),
    ],
)
def test_the_text_is_guessed_where_it_is_obvious(
    header: str, line: str, found: tuple[str, str | None]
) -> None:
    task_block(write("a.csv", header, *(line.format(i=i) for i in range(9))))
    task = load().tasks["a"]
    assert (task.text, task.text_pair) == found


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"label": "mod"}, "label: 'mod' given, allowed: Text, mood, who; did you mean 'mood'?"),
        ({"text": "txt"}, "text: 'txt' given, allowed: Text, mood, who; did you mean 'Text'?"),
        ({"attributes": ["wo"]}, "attribute: 'wo' given"),
        ({"name": "movies"}, "tasks.movies: stands in params.yaml already"),
        ({"name": "My Task"}, "tasks.My Task: "),
        ({"label": "Text"}, "label: column 'Text' holds 10 different values"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    shipped: str, how: dict, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rapt.data.init.MOST_VALUES", 5)
    with pytest.raises(RaptError) as error:
        task_block(mine(), **how)
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert Path("params.yaml").read_text() == shipped


@pytest.mark.parametrize(
    ("name", "lines", "line"),
    [
        ("a.csv", ["5,secret words", "4,other words"], "does not read like column names"),
        ("a.csv", ["x,y", "secret,1"], "no column is obviously the text, name it; allowed: x, y"),
        ("a.xlsx", ["secret"], "'.xlsx' given, allowed: .csv, .jsonl"),
    ],
)
def test_a_file_that_is_not_understood(name: str, lines: list[str], line: str) -> None:
    with pytest.raises(RaptError) as error:
        task_block(write(name, *lines))
    assert line in str(error.value)
    assert "secret" not in str(error.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(RaptError, match=r"^my\.csv: No such file"):
        task_block("my.csv")


def test_a_hidden_test_split_is_passed_over() -> None:
    Path("glue").mkdir()
    for split, y in {"train": 1, "validation": 0, "test": -1}.items():
        write(
            f"glue/{split}.csv", "sentence,label", f"one,{y}", f"two,{abs(y - 1) if y >= 0 else y}"
        )
    task_block("glue")
    assert load().tasks["glue"].source.files["test"] == "glue/validation.csv"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("folder", "how", "columns"),
    [
        ("sst2", {}, ("sentence", None, ["0", "1"])),
        ("qqp", {}, ("question1", "question2", ["0", "1"])),
        ("happydb", {"label": "social", "attributes": ["gender"]}, ("moment", None, ["no", "yes"])),
    ],
)
def test_folders_of_real_data(shared: Path, folder: str, how: dict, columns: tuple) -> None:
    task_block(shared / folder, **how)
    task = load().tasks[folder]
    assert task.label
    assert (task.text, task.text_pair, task.label.names) == columns
    assert prepare(folder, task, 0).summary["rows"]["train"] > 9_000
