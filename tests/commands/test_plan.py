"""The preview of an experiment: what it rests on, and its one-line errors."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from rapt import params, presets
from rapt.commands.plan import STARTED, listed, preview
from rapt.costs import Estimate
from rapt.speed import Speed
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.test_costs import FULL, H, experiment
from tests.test_costs import workspace as workspace

SPEED = Speed("this machine", start=40.0, product=50e9, training={str(H): 2e6, "768": 40e9})


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores of known speed."""
    monkeypatch.setattr("rapt.commands.plan.measured", lambda width: SPEED)
    monkeypatch.setattr("rapt.commands.plan.cores", lambda: 2)
    monkeypatch.setattr("rapt.commands.plan.has_gpu", lambda: False)


def said(capsys: pytest.CaptureFixture[str], p: params.Params) -> str:
    """Return the output of `rapt plan` on params written to a file."""
    content = json.loads(p.model_dump_json())
    content["sweep"] |= {
        name: list(map(int, content["sweep"][name])) for name in ("etas", "tune_at")
    }
    YAML().dump(content, Path("of_p.yaml"))
    return shown(capsys, "of_p.yaml")


def shown(capsys: pytest.CaptureFixture[str], what: str | None, **given: Any) -> str:
    preview(what, **given)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_previewed(
    workspace: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert shown(capsys, name).startswith(f"{name}: ")


def test_a_preview_says_what_it_rests_on(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = shown(capsys, "paper-nlu-bert")
    assert "195 cells (192 train, 3 local), 5 seeds: 960" in unknown
    assert "h, and 64 cells unknown, at 10 useful TFLOP/s (assumed" in unknown
    assert "the rows of happydb; give --rows happydb=N" in unknown
    assert "bert; give --parameters" not in unknown  # its size on the hub is known
    assert "adapters about 110 GB; releases unknown; embedding" in unknown
    # Five seeds of full fine-tuning: 109 million weights, each with two moments.
    assert "While the largest cell trains, its checkpoints take up to about 6.6 GB." in unknown
    rows = ["sst2=1000", "qqp=1000", "happydb=1K"]
    given = shown(capsys, "paper-nlu-bert", rows=rows, parameters=["0.1B"], tflops=1.0)
    # Per task and tuner: 16 cells x 5 seeds x 4 epochs, five of them with 40 plain tokens.
    words = (9.4 * 1.3 + 2) + (21.5 * 1.3 + 2) + 130  # HappyDB's are not known
    tokens = 5 * 4 * 1_000 * (16 * words + 3 * 5 * 40 * 1.3)
    prompt = 5 * 4 * 3_000 * 16 * 150
    # Of sst2 872 texts are scored, of qqp 40,430; those of happydb are not known.
    splits = {872: 9.4 * 1.3 + 2, 40_430: 21.5 * 1.3 + 2}
    scored = 5 * sum(n * (16 * length + 5 * 40 * 1.3) for n, length in splits.items())
    prompted = 5 * sum(splits) * 16 * 150
    flops = tokens * (6 + 3 * 4) + prompt * 4 + 2 * (4 * scored + prompted)
    hours = flops * 1e8 / 1e12 / 3600
    assert f"up to about {float(f'{hours:.2g}'):g} h, at 1 useful" in given
    assert "adapters about 96 GB, and 144 cells unknown" in given  # 48 x 5 x 0.4 GB
    text = presets.text("paper-nlu-bert").replace("google-bert/bert-base-uncased", "my/bert")
    Path("mine.yaml").write_text(text)
    assert "Not here yet: bert; give --parameters bert=3B" in shown(capsys, "mine.yaml")


def test_a_preview_takes_a_file_and_says_the_time_here(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yml").write_text(presets.text("demo").replace("seeds: 3", "seeds: 7"))
    assert "7 seeds: 63 training runs" in shown(capsys, "mine.yml")
    p = experiment(one=FULL)
    estimate, work = Estimate(p), Estimate(p).work()
    # Three seeds on two cores: every stage starts, and the processes of the two cells.
    seconds = 40 * (work.stages * STARTED / 2 + 2) + work.search / 100e9 + work.tuning / 4e6
    assert f"\nAbout {seconds / 60:.2g} min on this CPU (2 cores), " in said(capsys, p)
    assert estimate.guessed == []
    # Where cells have run here, at their pace.
    (first, *_) = estimate.tuned
    expected = 40 + estimate.flops(first) / 2e6
    files.write_json(".rapt/seconds.json", {f"{first.stage}@{first.key}": 3 * expected})
    assert f"\nAbout {3 * seconds / 60:.2g} min on this CPU (2 cores), " in said(capsys, p)


def test_presets_are_listed_with_what_they_cost_here(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = partial(Console, width=70, height=25)  # in any worker, whatever its environment says
    monkeypatch.setattr("rapt.commands.plan.Console", narrow)
    for speed, minutes in ((None, "-"), (SPEED, r"[\d.,]+ (min|h)")):
        monkeypatch.setattr("rapt.commands.plan.known", lambda speed=speed: speed)
        listed()
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 70
        assert re.fullmatch(rf"demo  24 cells, {minutes}", lines[0])
        assert lines[1].startswith("  The demo: ")


def test_a_preview_warns_of_too_many_cells(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "More than" not in shown(capsys, "paper-nlu-bert")
    monkeypatch.setattr("rapt.commands.plan.MOST_CELLS", 191)
    warned = shown(capsys, "paper-nlu-bert")
    assert "More than 191 cells: DVC writes dvc.lock anew for each, about 1.9 min" in warned


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"rows": ["sst=5"]}, r"^--rows: got 'sst', .*Did you mean 'sst2'\?$"),
        ({"rows": ["sst2=many"]}, r"^--rows: got 'sst2=many', expected .*$"),
        ({"parameters": ["three"]}, r"^--parameters: got 'three', expected .*$"),
        ({"parameters": ["-3B"]}, r"^--parameters: got '-3B', expected .*$"),
        ({"rows": ["sst2=inf"]}, r"^--rows: got 'sst2=inf', expected .*$"),
        ({"tflops": 0.0}, r"^--tflops: got 0, expected a number above 0\.$"),
    ],
)
def test_a_preview_ends_with_the_one_line(
    workspace: Path, given: dict[str, Any], line: str
) -> None:
    with pytest.raises(RaptError, match=line):
        preview("sst2-minilm", **given)
