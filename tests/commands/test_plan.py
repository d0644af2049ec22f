"""The preview of an experiment, by what ran on this machine."""

import copy
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from rapt import cli, params, presets
from rapt.commands.plan import listed, of_all_rows, preview
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.every_section import add_public_labels

EVERY = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")
FULL = {"type": "full", "learning_rate": 0.1}
# Ten texts of 5 words in each split: 4 epochs over one and a look at the other, by 3 seeds.
CELL = 3 * (4 * 50 + 50)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = partial(Console, width=70, height=25)  # in any worker, whatever its environment says
    monkeypatch.setattr("rapt.commands.plan.Console", narrow)
    monkeypatch.setattr("rapt.commands.plan.cores", lambda: 2)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with ten texts of five words in each split, and one method."""
    (tmp_path / "presets").symlink_to(ROOT / "presets")
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        rows = "\n".join(f"one two three four {split}{i},{i % 2}" for i in range(10))
        Path(f"{split}.csv").write_text(f"text,label\n{rows}\n")
    write("params.yaml")
    return tmp_path


def write(
    name: str, *, seeds: int = 3, epochs: int = 4, rows: int | None = None, **more: Any
) -> None:
    """Write params of three seeds of four epochs on one task."""
    content = copy.deepcopy(EVERY)
    task = content["tasks"]["movies"]
    task["source"] = {"type": "files", "files": {s: f"{s}.csv" for s in ("train", "test")}}
    task["format"] = {"type": "csv"}
    task["label"] = {"column": "label", "names": ["0", "1"], "threshold": None}
    task["rows"] = {"train": rows, "test": None}
    one = {"tasks": ["movies"], "train": ["movies"], "methods": ["rapt"], "tuners": ["one"]}
    lists = {"embeddings": ["minilm"], "backbones": ["minilm"], "etas": [75], "tune_at": [75]}
    content["sweep"] = {of: [] for of in content["sweep"]} | one | lists | more
    content |= {"seeds": seeds, "studies": {}, "tuners": {"one": FULL, "other": FULL}}
    content["train"]["epochs"] = epochs
    YAML().dump(content, Path(name))


def shown(capsys: pytest.CaptureFixture[str], what: str | None = None, **given: Any) -> str:
    preview(what, **given)
    return capsys.readouterr().out


def took(**seconds: float) -> None:
    files.write_json(".rapt/seconds.json", {k.replace("_", "-"): v for k, v in seconds.items()})


def stages(capsys: pytest.CaptureFixture[str], what: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(capsys, what, as_json=True))["stages"]
    return found


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_previewed(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert shown(capsys, name).startswith(f"{name}: ")


def test_what_ran_here_tells_how_long_the_same_takes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Time unknown: nothing has run here." in shown(capsys)
    took(**{"train@movies-minilm-one-rapt-75": 100, "validate": 4})
    text = shown(capsys)
    assert "\nparams.yaml: 3 cells (2 train, 1 local), 3 seeds: 6 training runs" in f"\n{text}"
    assert "\nAbout 100 s on 2 cores" in text.replace("1.7 min", "100 s")
    assert "On top, unknown: " in text and "train-clean" in text
    assert stages(capsys)["train"] == {"stages": 1, "seconds": 100}


def test_what_public_labels_answer_counts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = YAML(typ="safe").load(Path("params.yaml"))
    add_public_labels(content)
    content["gate"]["min_rows"] = 1
    YAML().dump(content, Path("params.yaml"))
    assert "params.yaml: 5 cells (2 train, 1 local, 2 public_labels), 3 seeds: 6" in shown(capsys)
    assert stages(capsys)["public-labels"]["stages"] == 1
    cli.check(json=True)
    counts = json.loads(capsys.readouterr().out)["cells"]
    assert counts.pop("public_labels") == 2 and sum(counts.values()) == 3


def test_all_rows_of_a_sample_take_as_much_longer_as_they_have_words(project: Path) -> None:
    assert of_all_rows(params.load()) is None
    write("params.yaml", rows=5)
    assert of_all_rows(params.load()) is None  # nothing ran yet
    took(**{"train@movies-minilm-one-rapt-75": 100, "validate": 4})
    # 4 epochs over 5 of the 10 training texts, and 10 to test on: 4 + 96 * 250 / 150 s.
    line = "`rapt init … --full` takes about 2.7 min here for all rows."
    assert of_all_rows(params.load()) == line


def test_stages_run_side_by_side(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On two cores three of them take as long as one and a half, and no less than the longest."""
    names = ("train@movies-minilm-one-rapt-75", "train-clean@movies-minilm-one", "local@movies")
    took(**dict.fromkeys(names, 60))
    assert "\nAbout 1.5 min on 2 cores" in shown(capsys)
    took(**dict.fromkeys(names[:2], 10), **{names[2]: 60})
    assert "\nAbout 60 s on 2 cores" in shown(capsys)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"seeds": 6}, 4 + 2 * 96),
        ({"epochs": 9}, 4 + 96 * 3 * (9 * 50 + 50) / CELL),
        ({"tuners": ["one", "other"]}, 200),  # the other tuner has not run: as the first
    ],
)
def test_more_words_take_longer_beside_the_start(
    project: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], seconds: float
) -> None:
    took(**{"train@movies-minilm-one-rapt-75": 100, "validate": 4})
    write("other.yaml", **given)
    assert stages(capsys, "other.yaml")["train"]["seconds"] == pytest.approx(seconds, abs=0.1)


def test_a_tuner_that_ran_is_its_own_measure(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("params.yaml", tuners=["one", "other"])
    cells = {f"train@movies-minilm-{tuner}-rapt-75": s for tuner, s in (("one", 9), ("other", 50))}
    took(**cells)
    write("second.yaml", tuners=["other"])
    assert stages(capsys, "second.yaml")["train"]["seconds"] == pytest.approx(50)


def test_a_preview_says_what_it_rests_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = shown(capsys, "paper-nlu-bert")
    assert "195 cells (192 train, 3 local), 5 seeds: 960 training runs" in unknown
    assert "the rows of happydb; give --rows happydb=N" in unknown
    assert "Taken as fast as the backbones of params.yaml: bert." in unknown
    given = shown(capsys, "paper-nlu-bert", rows=["happydb=1K"])
    assert "Not here yet: the texts of happydb; taken as long as train.max_tokens" in given


def test_presets_are_listed_with_their_time_here(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for time in ("-", "over .* (s|min|h)"):
        listed()
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 70
        assert re.fullmatch(rf"demo  24 cells, {time}", lines[0])
        assert lines[1].startswith("  The demo: ")
        took(validate=4)


def test_a_preview_warns_of_too_many_cells(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "More than" not in shown(capsys, "paper-nlu-bert")
    monkeypatch.setattr("rapt.commands.plan.MOST_CELLS", 191)
    warned = shown(capsys, "paper-nlu-bert")
    assert "More than 191 cells: DVC writes dvc.lock anew for each, about 1.9 min" in warned


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("sst=5", r"^--rows: got 'sst', .*Did you mean 'sst2'\?$"),
        ("sst2=many", r"^--rows: got 'sst2=many', expected .*$"),
        ("sst2=-3", r"^--rows: got 'sst2=-3', expected .*$"),
        ("sst2=inf", r"^--rows: got 'sst2=inf', expected .*$"),
    ],
)
def test_a_preview_ends_with_the_one_line(project: Path, rows: str, line: str) -> None:
    with pytest.raises(RaptError, match=line):
        preview("sst2-minilm", rows=[rows])
