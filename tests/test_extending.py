"""docs/extending.md: the package of the page, as its blocks stand there."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML
from typer.testing import CliRunner

from rapt import params
from rapt.cli import app
from rapt.commands import show_params
from rapt.kinds import KINDS
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.mechanisms.claim import Claim
from rapt.privacy.released import NewText, Released, TextVector
from rapt.release.text import TextPrivatizer
from rapt.reporting.page import render
from rapt.reporting.writer import frames
from rapt.results.reader import load as load_results
from rapt.serving.model import Adapted
from rapt.synthesis.base import Draw, PrivateTexts, synthesize
from rapt.text.table import EmbeddingTable
from rapt.tuning.config import Run
from rapt.tuning.model import load
from rapt.tuning.train import train_seed
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import download, gate, gate_private, invert, local, privatize, tag, train
from tests.conftest import NOUNS, ROOT, VERBS
from tests.serving.conftest import Served
from tests.stages.conftest import edited
from tests.stages.conftest import small as small
from tests.stages.conftest import workspace as workspace
from tests.stages.test_units import narrow as narrow
from tests.stages.test_units import sweeping, walk
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import in_this_process as in_this_process
from tests.tuning.conftest import release as release
from tests.tuning.conftest import run as run
from tests.tuning.test_trainer import gradients
from tests.utils.test_registry import install

PAGE = (ROOT / "docs/extending.md").read_text()
FILES = dict(re.findall(r"^`(\S+)`[^\n]*:\n\n```\w+\n(.*?)^```", PAGE, re.M | re.S))
(COMMANDS,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture(autouse=True)
def acme(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """The package of the page, installed."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    modules = {name: text for name, text in FILES.items() if name.endswith(".py")}
    assert len(modules) == 9
    install(folder, project["name"], project["entry-points"], modules, monkeypatch)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


@pytest.fixture
def experiment(small: Path) -> params.Params:
    """A project with the page's entries."""
    yaml = YAML(typ="safe")
    content = yaml.load(small / "params.yaml")
    for section, entries in yaml.load(FILES["params.yaml"]).items():
        content[section] |= entries
    content["sweep"] |= {"methods": ["response"], "attacked": ["response"], "channels": []}
    content["sweep"] |= {"tuners": ["ia3"], "inversions": ["frequent"], "channel_inversions": []}
    yaml.dump(content, small / "params.yaml")
    return params.load()


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # of what other tests left open
def test_params_take_and_show_the_entries(experiment: params.Params) -> None:
    kinds = experiment.attacks["frequent"], experiment.tuners["ia3"]
    assert [type(kind).__module__ for kind in kinds] == ["acme.attack", "acme.tuner"]
    shown = YAML(typ="safe").load(show_params.as_yaml(experiment))
    assert shown["tuners"]["ia3"] == {"type": "acme-ia3", "learning_rate": 0.003}
    assert params.validate(shown) == experiment


def refusal(content: dict[str, Any]) -> str:
    """What is said of params that are not allowed."""
    with pytest.raises(params.RaptError) as error:
        params.validate(content)
    return str(error.value)


@pytest.mark.parametrize(
    ("section", "entry", "line"),
    [
        ("tuners", {"type": "acme-ia3", "rank": 2}, "tuners.mine: got 'rank', expected one of"),
        ("tuners", {"type": "acme-ia3", "learning_rate": 0}, "tuners.mine.learning_rate: got 0"),
        ("attacks", "acme-frequent", "attacks.mine.type: got 'acme-frequent', expected one of"),
        ("methods", {"mechanism": "acme"}, "methods.mine.mechanism: got 'acme', expected one of"),
    ],
)
def test_mistakes_in_the_entries_are_one_line(
    experiment: params.Params, section: str, entry: Any, line: str
) -> None:
    content = experiment.model_dump(mode="json")
    content[section]["mine"] = entry
    assert refusal(content).startswith(line) and "\n" not in refusal(content)


def test_the_commands_of_the_page_run(
    empty: Path, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    Path("notes.txt").write_text("nouna verba nounb\n" * 20)
    printed = {}
    for line in COMMANDS.splitlines():
        _, command, *options = line.split()
        options += ["--table", str(table.folder)] if command == "privatize" else []
        done = CliRunner().invoke(app, [command, *options])
        assert done.exit_code == 0, (line, done.output, done.exception)
        printed[command] = done.output
    assert "acme-most-frequent" in printed["attacks"]
    assert "holds" in printed["audit"]
    assert set(Path("private.txt").read_text().split()) <= set(table.words)


def test_a_class_without_a_claim_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert mechanism("acme-response").claim.places == ["acme/proof.md"]
    assert mechanism("acme-louder").claim == Claim()
    printed = CliRunner().invoke(app, ["mechanisms"]).output
    sections = {s.split()[0]: s for s in re.split(r"\n\s*\n", printed) if s.strip()}
    assert "no guarantee" not in sections["acme-response"]
    assert "acme/proof.md" in sections["acme-response"]
    assert "no guarantee" in sections["acme-louder"]
    audit = CliRunner().invoke(app, ["audit", "--mechanism", "acme-louder", "--draws", "100"])
    line = "not tested: mechanism: got acme-louder, expected one that states a claim."
    assert line in " ".join(audit.output.split())  # however wide the terminal is


def test_the_attack_reads_a_release_of_the_mechanism(experiment: params.Params) -> None:
    privatize.main("mine", "response", "3", "minilm", Path("data/private/mine/response-3"))
    statement = files.read_json("data/private/mine/response-3/statement.json")
    assert statement["mechanism"] == "acme-response"
    assert statement["claim"]["proof"] == ["acme/proof.md"]
    invert.main("frequent", "mine", "response", "3")
    cell = files.read_json("reports/cells/invert/frequent-mine-response-3.json")
    assert 0 < cell["metrics"]["accuracy"]["mean"] <= cell["baselines"]["majority"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("method", "unit"), [("pooled", TextVector), ("rewrite", NewText)])
def test_mechanisms_of_whole_texts_go_from_the_release_to_every_cell(
    experiment: params.Params, narrow: Path, method: str, unit: type[Released]
) -> None:
    with edited() as content:
        content["sweep"] |= {"inversions": [], "tuners": ["lora"]}
    sweeping("pooled", "rewrite")
    statement = walk(method, unit)
    proven = method == "pooled"
    assert statement["protection"] == ("d_X-privacy" if proven else "no guarantee")
    assert (statement["claim"] or {}).get("proof") == (["acme/proof.md"] if proven else None)
    if unit is NewText:
        path = f"data/private/mine/{method}-3/seed-0/test.parquet"
        lengths = {len(words) for words in files.read_parquet(path)["words"].to_pylist()}
        assert len(lengths) > 2  # each text had four words


def test_attacks_on_words_are_refused_where_there_are_none(experiment: params.Params) -> None:
    content = experiment.model_dump(mode="json")
    content["sweep"] |= {"methods": ["pooled", "rewrite"], "attacked": ["pooled", "rewrite"]}
    content["sweep"] |= {"invert": ["mine"], "recognize": ["mine"], "recognitions": ["ner"]}
    assert refusal(content).splitlines() == [
        f"methods.{method}: got a mechanism that releases {unit.name}, with attack {attack}, "
        "expected one that releases a word for each word."
        for attack in ("frequent", "ner")
        for method, unit in (("pooled", TextVector), ("rewrite", NewText))
    ]


def test_the_tuner_trains_and_its_adapter_is_loaded(
    experiment: params.Params, run: Run, backbone: Path
) -> None:
    losses = train_seed(replace(run, tuner=experiment.tuners["ia3"])).curves["task_loss"]
    assert losses[-1] < losses[0]
    model = load(run.adapter, backbone)
    learned = [weight for name, weight in model.named_parameters() if "ia3" in name]
    assert learned and all((weight != 1).any() for weight in learned)


@pytest.fixture
def ratings(experiment: params.Params) -> params.Params:
    """The page's task alone: a text's number is how many words it has."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 120)
    texts = [" ".join(rng.choice([*NOUNS, *VERBS], size)) for size in lengths]
    rows = [f"{text},{size / 2}" for text, size in zip(texts, lengths, strict=True)]
    Path("ratings.csv").write_text("\n".join(["text,stars", *rows, "nouna,many"]) + "\n")
    with edited() as content:
        own = {"tasks": ["ratings"], "train": ["ratings"], "backbones": ["tiny"], "invert": []}
        content["sweep"] |= own | {"etas": [3], "tune_at": [3], "probes": [], "denoisers": []}
        content["sweep"] |= {"memberships": [], "layers": [], "inferences": []}
        content["tuners"]["ia3"]["learning_rate"] = 0.05
        content["train"] |= {"epochs": 12, "batch_size": 8, "warmup": 0.0}
    return params.load()


@pytest.mark.slow
def test_the_kind_of_task_goes_all_the_way(
    ratings: params.Params, request: pytest.FixtureRequest
) -> None:
    """From its raw rows to the report and to a number for a new text, by its two halves alone."""
    assert type(ratings.tasks["ratings"]).__module__ == "acme.kind"
    download.main("ratings")
    raw = files.read_parquet("data/raw/ratings/train.parquet")
    assert files.read_json("data/raw/ratings/summary.json")["dropped"]["no number"] == 1
    assert raw["number"].type == "double"
    gate.main()
    tag.main("ratings")
    local.main("ratings")
    for method, eta, name in (("clean", "inf", "clean"), ("response", "3", "response-3")):
        release, cell = Path("data/private/ratings", name), f"ratings-tiny-ia3-{name}"
        privatize.main("ratings", method, eta, "minilm", release)
        statement = files.read_json(release / "statement.json")
        assert (statement["kind"], statement["labels"]) == ("acme-regress", None)
        assert statement["columns"] == ["example_id", "number", "segment"]
        train.main(cell, "ratings", "tiny", "ia3", method, eta)
        request.getfixturevalue("in_this_process")  # once by others, which import the package too
        found = files.read_json(f"reports/cells/train/{cell}.json")
        mae = found["metrics"]["mae"]
        assert mae["low"] < mae["mean"] < mae["high"] < found["baselines"]["mae"]
        assert found["metrics"]["correlation"]["mean"] > 0.5
    gate_private.main("ratings")
    results = load_results(ratings)
    rows = {row["method"]: row for row in frames(results)["measured"].to_dict("records")}
    assert rows["response"]["value"] == mae["mean"]
    assert rows["response"]["local"] == pytest.approx(rows["response"]["baseline"])
    assert rows["clean"]["protection"] == "unprotected"
    assert f"{mae['mean']:.3g}" in render(results, [])
    adapter = f"models/adapters/{cell}/seed-0"
    (number,) = predict(adapter, "--json")
    (line,) = predict(adapter)
    assert line == f"{json.loads(number)['mae']:.2f}"
    with Served(Adapted(Path(adapter))) as served:
        assert predict(served.url, "--json", "--as-told") == [number]


def predict(adapter: str, *options: str) -> list[str]:
    """What is printed for a text that is sent as it is."""
    asked = ["predict", "nouna verba", "--adapter", adapter, "--eta", "inf", *options]
    return CliRunner().invoke(app, asked).stdout.splitlines()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"number": None}, "tasks.ratings.number: got None"),
        ({"kind": "acme-regres"}, "tasks.ratings.kind: got 'acme-regres', expected one of"),
        ({"references": "texts"}, "tasks.ratings: got 'references', expected one of"),
    ],
)
def test_mistakes_in_the_task_are_one_line(
    ratings: params.Params, change: dict[str, Any], line: str
) -> None:
    content = ratings.model_dump(mode="json")
    content["tasks"]["ratings"] |= change
    assert refusal(content).startswith(line) and "\n" not in refusal(content)


def test_a_task_without_its_other_half_is_one_line(
    ratings: params.Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KINDS, "_others", dict)
    line = "tasks.ratings.kind: got 'acme-regress', expected one of choose, classify, generate"
    assert refusal(ratings.model_dump(mode="json")).startswith(line)


@pytest.mark.parametrize(
    ("lists", "line"),
    [
        ({"tuners": ["ia3", "probe"]}, "sweep.tuners (with task ratings, of kind acme-regress)"),
        ({"memberships": ["loss"]}, "sweep.memberships: got some with task ratings, of kind acme"),
        ({"layers": ["response-3"]}, "sweep.layers: got task ratings, of kind acme-regress"),
    ],
)
def test_what_does_not_suit_the_kind_is_one_line(
    ratings: params.Params, lists: dict[str, list[str]], line: str
) -> None:
    content = ratings.model_dump(mode="json")
    content["tuners"]["probe"] = {"type": "linear-probe"}
    content["attacks"]["loss"] = {"type": "membership-loss"}
    content["sweep"] |= lists
    assert line in refusal(content)


def test_the_gradient_is_that_of_the_batch_shortened(
    experiment: params.Params, run: Run, backbone: Path
) -> None:
    clipped = experiment.train.gradient
    assert clipped.model_dump() == {"type": "acme-clipped", "norm": 0.5}
    train = run.train.model_copy(update={"gradient": clipped})
    whole, short = (gradients(replace(run, train=how)) for how in (run.train, train))
    norm = sum(float(one.square().sum()) for one in whole.values()) ** 0.5
    assert norm > 0.5
    for name, one in whole.items():
        torch.testing.assert_close(short[name], one * 0.5 / norm)


def test_the_detector_marks_words(table: EmbeddingTable) -> None:
    """Its parts have digits: the forms would call them numbers."""
    options = {"table": table.folder, "eta": 1.0, "language": "any", "allow_weak": True}
    text = "Send it to DE02 1203 0000 0000 2020 51 now."
    plain, marked = (
        TextPrivatizer(detectors=detectors, **options).release([text])[0]
        for detectors in ((), ("acme-iban",))
    )
    shown = [word.released for word in marked]
    assert [word.original for word in plain] == [word.original for word in marked]
    assert shown.count("<iban>") == 6
    assert [word.fate for word in marked].count("placeholder iban") == 6
    assert "<iban>" not in [word.released for word in plain]
    with pytest.raises(RaptError, match=r"detectors: got 'acme-ibam', expected one of acme-iban"):
        TextPrivatizer(detectors=["acme-ibam"], **options)


def test_a_synthesizer_writes_as_many_texts_as_it_is_told(experiment: params.Params) -> None:
    how = params.load().synthesizers["templates"]
    private = PrivateTexts(
        ["good"] * 300 + ["bad"] * 150, np.repeat([1, 0], [300, 150]), ["a", "b"]
    )
    made = synthesize(how, private, Draw(4.0, Path(), 0, (0,)))
    assert made.texts == [["so a"] * 2, ["so b"] * 4]
