"""The whole demo at reduced size, from a clean clone to the report, and what users then do."""

import json
import re
import shutil
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rapt import grid, params
from rapt.data.config import Values
from rapt.grid import CLEAN
from rapt.privacy import seeded
from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT
from tests.end_to_end.conftest import Workspace, few_draws, ran

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
STARS = {"A moving": 5, "A dull": 1}


def test_the_report_holds_the_results(demo: Workspace) -> None:
    page = demo.read("reports/report.html")
    for words in ("strike a nerve", "unprotected", "movies", "Baseline"):
        assert words in page
    metrics = json.loads(demo.read("reports/metrics.json"))
    assert {"train", "invert", "infer"} <= set(metrics)
    planned = {(c.kind, c.cell) for c in grid.plan(params.load(demo.path / "params.yaml"))}
    written = {(p.parent.name, p.stem) for p in (demo.path / "reports/cells").glob("*/*.json")}
    assert written == planned


def test_nothing_runs_twice(demo: Workspace) -> None:
    assert "up to date" in demo.dvc("repro")
    assert demo._git("status", "--porcelain") == ""


def test_dvcs_own_commands_work(demo: Workspace) -> None:
    assert "invert" in demo.dvc("metrics", "show")
    assert demo.dvc("plots", "show").strip().endswith("index.html")
    demo.edit(lambda p: p["sweep"]["etas"].insert(0, 50))
    assert "sweep.etas" in demo.dvc("params", "diff")
    demo._git("checkout", "params.yaml")


# README's commands, as they stand there


def shown(section: str) -> list[str]:
    """A section's commands, less those that install, edit by hand, open or serve a page."""
    text = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = (line.partition("  #")[0].strip() for line in re.findall(r"^    .+$", text, re.M))
    others = ("source", "$EDITOR", "pip", "make", "rapt try")
    return [line for line in lines if not line.startswith(others)]


def test_readme_changes_the_experiment(demo: Workspace) -> None:
    printed = {line: demo.shell(line) for line in shown("Change the experiment")}
    assert "up to date" in printed["dvc repro"]
    (experiment,) = [line for line in printed if line.startswith("dvc exp run")]
    cells = {f"train@movies-minilm-lora-{method}-75" for method in ("t2t", "pct2t", "rapt")}
    tuned = {*cells, "train-clean@movies-minilm-lora"}
    assert ran(printed[experiment]) == {"validate", "report", *tuned}
    assert "tuners.lora.r" in printed["dvc params diff; dvc metrics diff"]
    demo._git("checkout", ".")
    demo.dvc("checkout", "-q")
    assert "up to date" in demo.dvc("repro")


def test_readme_privatizes_a_file(demo: Workspace) -> None:
    (demo.path / "reviews.csv").write_text('review,stars\n"A moving story.",5\n')
    for line in shown("Privatize a file"):
        # Of all mechanisms it takes a minute, and each has a test of its own.
        demo.shell("rapt audit --mechanism t2t" if line == "rapt audit" else line)
    assert (demo.path / "private.csv").read_text().startswith("review,stars\n")
    assert "PRIVACY STATEMENT" in demo.read("private.csv.privacy.txt")


def test_readme_predicts_with_an_adapter(demo: Workspace) -> None:
    serve, predict = shown("Predict with an adapter")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    to = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    provider = demo.popen("bash", "-c", f"exec {serve} --port {port}", **to)
    try:
        assert provider.stdout
        assert any(f"http://127.0.0.1:{port}" in line for line in provider.stdout)
        said = demo.shell(predict.replace("8000", str(port)))
    finally:
        provider.kill()
        provider.wait()
    assert {"negative", "positive"} & set(said.split())


def test_readme_begins_with_ones_own_data(demo: Workspace, tmp_path: Path) -> None:
    """A first result, then all rows."""
    mine = demo.copy(tmp_path / "mine")
    shutil.copy(ROOT / "params.yaml", mine.path)  # as in a clone that nobody has edited
    rows = [f"{word} film number {n},{stars}" for n in range(60) for word, stars in STARS.items()]
    (mine.path / "reviews.csv").write_text("\n".join(("review,stars", *rows)) + "\n")
    for line in shown("Your own data"):
        mine.shell(line)
    mine.edit(quickly)
    mine.run(sys.executable, "-m", "pipelines", "--slots", "2")
    page = mine.read("reports/report.html")
    assert "reviews · minilm · lora" in page and "A sample of the rows" not in page


def quickly(params: dict[str, Any]) -> None:
    """Reduce the size of the params that were written."""
    few_draws(params)
    params["sweep"] |= {"etas": [75], "tune_at": [75]}
    params["seeds"] = 1
    params.setdefault("train", {})["epochs"] = 1


def test_a_wrong_value_stops_before_any_other_stage(demo: Workspace) -> None:
    demo.edit(lambda p: p["tuners"]["lora"].update(r=0))
    printed = demo.dvc("repro", fails=True)
    assert "tuners.lora.r: got 0, expected a number greater than 0" in printed
    assert printed.count("Running stage") == 1
    demo._git("checkout", ".")


# The release


def test_a_release_holds_nothing_but_its_contract(demo: Workspace) -> None:
    """No column, file, metadata or name with original text, tags, spacing or attributes.

    The clean one, which stays, has the spacing.
    """
    p = params.load(demo.path / "params.yaml")
    for task in p.sweep.tasks:
        attributes = {
            value
            for attribute in (p.tasks[task].attributes or {}).values()
            if isinstance(attribute, Values)
            for value in attribute.values
        }
        for release in (demo.path / "data/private" / task).glob("*/"):
            plain = p.method(release.name.rpartition("-")[0] or "clean").plain_tokens
            columns = {"example_id", "segment", "words"}
            if p.tasks[task].label:
                columns |= {"label"} | ({"sequence", "plain"} if plain else set())
            if release.name == CLEAN:
                columns.add("space_after")
            for path in release.rglob("*"):
                if path.suffix == ".parquet" and path.stem != "plain":
                    schema = pq.read_schema(path)
                    assert set(schema.names) == columns
                    assert not schema.metadata
                elif path.is_file():
                    assert path.name in ("statement.json", "plain.parquet")
            names = " ".join(str(path.relative_to(release)) for path in release.rglob("*"))
            statement = (release / "statement.json").read_text()
            assert not [value for value in attributes if value in names + statement]


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_word_of_a_release_equals_a_fresh_replay(
    demo: Workspace, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    """Its words and its plain words, from the table and the seed alone."""
    monkeypatch.chdir(demo.path)
    p = params.load("params.yaml")
    for task, method in product(p.sweep.tasks, p.sweep.methods):
        tagged = pq.read_table(f"data/tagged/{task}/{split}.parquet")
        how = p.methods[method]
        privatizer = seeded.privatizer(p.embedding, how.mechanism, how.categories, "75")
        for k in range(p.seeds):
            release = pq.read_table(f"data/private/{task}/{method}-75/seed-{k}/{split}.parquet")
            names = {"seed": p.seed}
            again = seeded.release(privatizer, tagged, k, task, **names)
            assert release["words"].to_pylist() == [text.words for text in again]
            if "plain" in release.column_names:
                plain_tokens = how.plain_tokens.model_dump()
                plain = seeded.PlainTokens(privatizer, k, **names, **plain_tokens)
                ids = tagged["example_id"].to_pylist()
                assert release["sequence"].to_pylist() == plain.sequences(ids, task)
                assert release["plain"].to_pylist() == list(plain.copies(ids, task))
    gate = json.loads(demo.read("reports/gates/private/movies/t2t-75.json"))
    assert all(0.3 < seed["share"] < 0.8 for seed in gate["replaced"])


def test_clean_text_is_marked_unprotected(demo: Workspace) -> None:
    statement = json.loads(demo.read("data/private/movies/clean/statement.json"))
    assert statement["protection"] == "unprotected"
    cell = json.loads(demo.read("reports/cells/train/movies-minilm-lora-clean.json"))
    assert cell["protection"] == "unprotected"
    noisy = json.loads(demo.read("data/private/movies/t2t-75/statement.json"))
    assert noisy["protection"] == "d_X-privacy"


def test_no_text_leaves_the_user_side_but_in_the_release(demo: Workspace) -> None:
    """No sentence of the data, as text or as words, in a report, gate, log, adapter or run."""
    demo.run(sys.executable, "-c", "from rapt.cli import main; main()", "sync")
    phrases = set()
    for task, split in product(("movies", "tweets"), ("train", "test")):
        for text in pq.read_table(demo.path / f"data/raw/{task}/{split}.parquet")[
            "text"
        ].to_pylist():
            phrases.add(text.strip()[:25].encode())
        for words in pq.read_table(demo.path / f"data/tagged/{task}/{split}.parquet")["words"]:
            first = words.as_py()[:6]
            phrases |= {json.dumps(first)[1:-1].encode(), " ".join(first).encode()}
    phrases = {phrase for phrase in phrases if len(phrase) > 20}
    assert len(phrases) > 300
    for name in ("reports", "models/adapters", ".rapt", "mlartifacts", "mlflow.db"):
        place = demo.path / name
        found = [p for p in place.rglob("*") if p.is_file()] if place.is_dir() else [place]
        assert found, name
        for path in found:
            content = path.read_bytes()
            assert not [phrase for phrase in phrases if phrase in content], path


def test_a_plain_push_sends_no_canary(demo: Workspace, tmp_path: Path) -> None:
    """Words that the table does not know are nowhere in what `dvc push` sends of any out."""
    demo.dvc("remote", "add", "--local", "--default", "shared", str(tmp_path))
    try:
        demo.dvc("push")
    finally:
        demo.dvc("remote", "remove", "--local", "shared")
    table = EmbeddingTable(demo.path / "models/tables/minilm")
    tagged = [pq.read_table(path) for path in (demo.path / "data/tagged").rglob("*.parquet")]
    words = {word for each in tagged for text in each["words"].to_pylist() for word in text}
    # Names, as the report's own page has words such as probes.
    names = {word for word in words if len(word) > 5 and word.isalpha() and word.istitle()}
    canaries = {word for word in names if not table.knows(word)}
    assert len(canaries) > 20
    sent = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(sent) > 100
    assert not [path for path in sent if canaries & strings(path)]


def strings(path: Path) -> set[str]:
    """Return the words of a file, be it compressed Parquet."""
    content = path.read_bytes()
    if content[:4] == b"PAR1":
        content = json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False).encode()
    return set(re.findall(r"\w+", content.decode(errors="ignore")))


# Edits: last, as they change the workspace


def test_an_appended_eta_runs_its_own_cells_alone(demo: Workspace) -> None:
    """Of the tweets, which are not tuned on: no cell of 75 is made again."""
    demo.edit(lambda p: p["sweep"]["etas"].append(60))
    attack = "infer@authorship-tweets-t2t-60"
    gates = {f"gate-private@{task}" for task in ("tweets",)}
    released = {f"privatize@tweets-{method}-60" for method in ("t2t", "pct2t", "rapt")}
    levels = "levels@minilm"  # which looks for levels among the etas
    assert demo.repro(attack, *gates) == {"validate", levels, attack, *gates, *released}
    demo.edit(lambda p: p["sweep"]["etas"].remove(60))
    assert demo.repro("infer") <= {"validate"}
