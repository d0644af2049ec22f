"""The MLflow mirror, on synthetic cells and a database of its own."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rapt import params
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting import mlflow_mirror
from rapt.results.reader import load
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.reporting import synthetic

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.slow  # MLflow takes seconds to import
VARYING = {
    "seconds": 12.5,
    "device": "cpu",
    "machine": "Linux x86_64",
    "host_cores": 2,
    "commit": "abc",
    "finished": "2026-01-02T03:04:05Z",
}
SYNC = "from rapt import params; from rapt.reporting.mlflow_mirror import sync; sync(params.load())"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a synthetic experiment and an initialised, empty database (seconds each)."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RAPT_HOME", raising=False)
        synthetic.write(folder)
        with mlflow_mirror.store():
            pass
    return folder


@pytest.fixture
def experiment(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Params]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    yield params.load(tmp_path / "params.yaml")


@pytest.fixture(scope="module")
def mirrored(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that is mirrored in MLflow: to be read, not changed.

    It knows the scores of texts, and of one cell what varies between runs.
    """
    folder = tmp_path_factory.mktemp("mirrored")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RAPT_HOME", raising=False)
        patch.setenv("MLFLOW_RUN_ID", "f" * 32)
        files.write_json(".rapt/runs/train/movies-minilm-lora-t2t-50.json", VARYING)
        p = params.load()
        synthetic.write_predictions(p, {"local": 0.6, "t2t": 0.5, "pct2t": 0.9})
        mlflow_mirror.sync(p)
    return folder


@pytest.fixture
def children(mirrored: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The runs of its cells; it is the working folder."""
    monkeypatch.chdir(mirrored)
    return runs()[1]


def runs() -> tuple[list[Any], dict[str, Any]]:
    """Return the parent runs, and the children by cell."""
    with mlflow_mirror.store() as client:
        found = client.search_runs([mlflow_mirror.experiment_id(client)])
    parents = [run for run in found if mlflow_mirror.CELL not in run.data.tags]
    children = [run for run in found if mlflow_mirror.CELL in run.data.tags]
    by_cell = {run.data.tags[mlflow_mirror.CELL]: run for run in children}
    assert len(by_cell) == len(children)
    return parents, by_cell


def expected(experiment: Params) -> set[str]:
    """Return every tuned and local cell, and the attacks on texts that nothing is tuned on."""
    return {
        cell.cell
        for cell in plan(experiment)
        if cell.kind in (*mlflow_mirror.TUNED, mlflow_mirror.LOCAL)
        or (cell.kind in ("invert", "recognize") and "tweets" in cell.cell)
    }


def test_a_sync_logs_what_is_missing_or_changed_and_nothing_twice(
    experiment: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    def synced() -> dict[str, str]:
        mlflow_mirror.sync(experiment)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "mlflow", None)
            assert mlflow_mirror.is_synced(experiment)
        parents, children = runs()
        assert len(parents) == 1
        return {cell: run.info.run_id for cell, run in children.items()}

    late = next(c for c in plan(experiment) if c.cell == "movies-minilm-lora-t2t-50")
    content = late.path.read_bytes()
    late.path.unlink()
    assert not mlflow_mirror.is_synced(experiment)
    half = synced()
    assert set(half) == expected(experiment) - {late.cell}
    late.path.write_bytes(content)
    assert not mlflow_mirror.is_synced(experiment)
    whole = synced()
    assert whole == half | {late.cell: whole[late.cell]}
    assert set(whole) == expected(experiment)
    assert synced() == whole
    # A run that broke off has no digest yet.
    with mlflow_mirror.store() as client:
        client.delete_tag(whole[late.cell], mlflow_mirror.DIGEST)
    again = synced()
    assert {cell for cell in whole if again[cell] != whole[cell]} == {late.cell}
    synthetic.write_cell(late, metrics={"accuracy": {"mean": 0.9, "sd": None, "n": 1}})
    changed = synced()
    assert {cell for cell in whole if changed[cell] != again[cell]} == {late.cell}
    metrics = runs()[1][late.cell].data.metrics
    assert metrics["accuracy"] == 0.9 and "accuracy_sd" not in metrics
    assert not Path("mlartifacts", again[late.cell]).exists()
    assert not mlflow_mirror.is_synced(experiment.model_copy(update={"seed": experiment.seed + 1}))
    Path("mlflow.db").unlink()
    assert not mlflow_mirror.is_synced(experiment)


def test_a_child_for_each_cell_that_stands_alone_shows_the_trade_off(
    children: dict[str, Any],
) -> None:
    (parent,), experiment = runs()[0], params.load()
    assert set(children) == expected(experiment)
    assert parent.data.tags[mlflow_mirror.SWEEP] == mlflow_mirror.sweep_id(experiment)
    for cell, run in children.items():
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        clean = cell.endswith("-clean")
        assert (run.data.tags["protection"] == "unprotected") == clean, cell
        assert (run.data.params["method"] == "clean") == clean
        assert run.info.status == "FINISHED"
    run = children["movies-minilm-lora-rapt-75"]
    own = files.read_json("reports/cells/train/movies-minilm-lora-rapt-75.json")
    infer = files.read_json("reports/cells/infer/mlp-tweets-pct2t-75.json")
    metrics = run.data.metrics
    assert metrics["accuracy"] == own["metrics"]["accuracy"]["mean"]
    assert metrics["accuracy_sd"] == own["metrics"]["accuracy"]["sd"]
    _has_privacy("nearest/", run, "nearest-movies-pct2t-75")
    inference = infer["metrics"]["empirical_privacy_author"]["mean"]
    assert metrics["mlp/tweets/empirical_privacy_author"] == inference
    assert metrics["replaced_share"] == 0.45
    assert (run.data.params["method"], run.data.params["tuner.type"]) == ("rapt", "lora")
    with mlflow_mirror.store() as client:
        curve = client.get_metric_history(run.info.run_id, "seed-1/task_loss")
        artifacts = client.list_artifacts(run.info.run_id)
    losses = [point.value for point in sorted(curve, key=lambda point: point.step)]
    assert losses == own["seeds"][1]["curves"]["task_loss"]
    assert [a.path for a in artifacts] == ["statement.json"]
    digests = {i.dataset.name: i.dataset.digest for i in run.inputs.dataset_inputs}
    raw = files.read_json("reports/gates/raw/movies.json")["sha256"]
    assert digests["movies train"] == raw["train"][:36]
    # No bayes is planned on rapt's releases, which equal pct2t's, so rapt's run has pct2t's.
    alike = children["movies-minilm-lora-pct2t-75"].data.metrics
    assert metrics["bayes/empirical_privacy"] == alike["bayes/empirical_privacy"]
    # Nothing was tuned on these texts.
    alone = children["nearest-tweets-t2t-50"]
    _has_privacy("", alone, "nearest-tweets-t2t-50")
    assert alone.data.params["attack.type"] == "nearest-neighbour"
    assert alone.data.params["method.mechanism.type"] == "t2t"
    assert "train.epochs" not in alone.data.params


def _has_privacy(prefix: str, run: Any, cell: str) -> None:
    known = files.read_json(f"reports/cells/invert/{cell}.json")["metrics"]["empirical_privacy"]
    for suffix, part in (("", "mean"), ("_sd", "sd"), ("_low", "low"), ("_high", "high")):
        assert run.data.metrics[f"{prefix}empirical_privacy{suffix}"] == known[part]


def test_a_child_shows_what_is_recognized_in_its_own_task(folder: Path) -> None:
    results = load(synthetic.write(folder, synthetic.recognize_entities))
    (cell,) = results.of("train", method="rapt", eta="75")
    metrics = {name: value for name, value, _ in mlflow_mirror.record(results, cell).metrics}
    own = files.read_json("reports/cells/recognize/ner-movies-pct2t-75.json")
    assert metrics["ner/f1"] == own["metrics"]["f1"]["mean"]


def test_a_denoised_cell_is_a_child_with_the_attacks_on_the_release_it_reads(folder: Path) -> None:
    p = synthetic.write(folder, synthetic.denoise_t2t)
    results = load(p)
    held = {
        cell.plan.kind: mlflow_mirror.record(results, cell)
        for kind in ("train", "denoise")
        for cell in results.of(kind, method="t2t", eta="75")
    }
    own, plain = held["denoise"], held["train"]
    assert own.name == f"{plain.name}-posterior-mean"
    assert own.params == plain.params | {
        "denoiser": "posterior-mean",
        "denoiser.type": "posterior-mean",
        "denoiser.prior": "release",
    }
    attacks = {name: value for name, value, _ in plain.metrics if "/empirical" in name}
    assert attacks
    assert attacks.items() <= {name: value for name, value, _ in own.metrics}.items()


def test_a_run_is_logged_again_if_an_artifact_has_changed(folder: Path) -> None:
    (cell,) = (results := load(synthetic.write(folder))).of("train", method="t2t", eta="75")
    before = mlflow_mirror.record(results, cell).digest
    assert mlflow_mirror.record(results, cell).digest == before
    files.write_json("data/private/movies/t2t-75/statement.json", {"task": "movies"})
    assert mlflow_mirror.record(results, cell).digest != before


def test_membership_is_shown_with_the_adapter_that_was_asked(folder: Path) -> None:
    results = load(synthetic.write(folder, synthetic.infer_membership))
    for kind, tuner in (("train", "lora"), ("train", "prefix"), ("denoise", "lora")):
        (cell,) = results.of(kind, method="t2t", eta="75", tuner=tuner)
        metrics = {name: value for name, value, _ in mlflow_mirror.record(results, cell).metrics}
        asked = [c for c in results.of("membership", method="t2t", eta="75", tuner=tuner)]
        aucs = [c.metric("auc").mean for c in asked] if kind == "train" else []
        assert [v for name, v in metrics.items() if name == "loss/auc"] == aucs


def test_what_varies_is_shown_where_known(children: dict[str, Any]) -> None:
    run = children["movies-minilm-lora-t2t-50"]
    assert run.data.tags["rapt.device"] == "cpu"
    assert run.data.metrics["seconds"] == 12.5
    assert run.info.end_time - run.info.start_time == 12500


def test_a_slot_logs_into_the_main_workspace(
    experiment: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "#1? 50%20"  # which a database's address takes for its syntax
    slot = main / ".rapt/slot"
    slot.mkdir(parents=True)
    monkeypatch.chdir(slot)
    monkeypatch.setenv("RAPT_HOME", str(main))
    synthetic.write(slot)
    mlflow_mirror.sync(experiment)
    assert set(runs()[1]) == expected(experiment)
    assert sorted(p.name for p in slot.iterdir()) == [".rapt", "data", "params.yaml", "reports"]
    assert (main / "mlflow.db").exists()
    home = (main / "mlartifacts").as_uri()
    assert all(run.info.artifact_uri.startswith(home) for run in runs()[1].values())


def test_a_moved_database_says_what_to_do(mirrored: Path, experiment: Params) -> None:
    shutil.copy(mirrored / "mlflow.db", "mlflow.db")
    with pytest.raises(RaptError, match="got the database of another folder"):
        mlflow_mirror.sync(experiment)


@pytest.mark.slow
def test_two_processes_at_once_leave_no_duplicates(tmp_path: Path) -> None:
    """There is no database at first, as concurrent creation would break it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.delenv("RAPT_HOME", raising=False)
        experiment = synthetic.write(tmp_path)
        command = [sys.executable, "-c", SYNC]
        patch.setenv("PYTHONPATH", str(ROOT))
        both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        errors = [process.communicate(timeout=120)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], errors
        parents, children = runs()
    assert len(parents) == 1
    assert set(children) == expected(experiment)


@pytest.mark.slow
def test_a_sync_that_was_killed_is_completed(
    experiment: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sync completes MLflow's database, whatever it holds when its writer dies."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    killed = subprocess.Popen([sys.executable, "-c", SYNC], stderr=subprocess.DEVNULL)
    while len(list(Path("mlartifacts").rglob("statement.json"))) < 3:
        assert killed.poll() is None, "it has ended before it was killed"
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    mlflow_mirror.sync(experiment)
    parents, children = runs()
    assert len(parents) == 1
    assert set(children) == expected(experiment)
    assert all(run.info.status == "FINISHED" for run in children.values())


@pytest.mark.parametrize("word", ["broken", "unproven"])
def test_a_run_names_the_attacks_that_say_nothing_and_holds_no_figure_of_a_broken_one(
    experiment: Params, word: str
) -> None:
    cells = {cell.cell: cell for cell in plan(experiment)}
    for attack in ("mlp-tweets-clean", "nearest-tweets-clean"):
        if word == "broken":
            synthetic.break_attack(cells[attack])
        else:
            Path(cells[attack].path).unlink()
    mlflow_mirror.sync(experiment)
    children = runs()[1]
    alone, tuned = (
        children["nearest-tweets-t2t-75"].data,
        children["movies-minilm-lora-t2t-75"].data,
    )
    assert alone.tags[f"rapt.{word}"] == "accuracy_protected"
    assert tuned.tags[f"rapt.{word}"] == "mlp/tweets/accuracy_author"
    assert ("empirical_privacy" in alone.metrics) == (word == "unproven")
    assert ("mlp/tweets/empirical_privacy_author" in tuned.metrics) == (word == "unproven")
    assert "nearest/empirical_privacy" in tuned.metrics
    other = {"broken": "unproven", "unproven": "broken"}[word]
    for name, run in children.items():
        assert f"rapt.{other}" not in run.data.tags
        concerned = cells[name].kind in mlflow_mirror.TUNED or name.startswith("nearest-tweets")
        if word == "unproven":  # there is nothing on clean text to be called so
            concerned &= not name.endswith("-clean")
        assert (f"rapt.{word}" in run.data.tags) == concerned, name
    if word == "broken":  # its score on clean text shows why
        assert "mlp/tweets/accuracy_author" in children["movies-minilm-lora-clean"].data.metrics


def test_a_tuned_task_with_attributes_is_mirrored(folder: Path) -> None:
    """Its local and tuned cells attack nothing, so none of their metrics is doubted."""
    experiment = synthetic.write(folder, synthetic.add_attribute)
    assert not mlflow_mirror.is_synced(experiment)
    results = load(experiment)
    (local,) = results.of("local")
    tags = mlflow_mirror.record(results, local).tags
    assert set(tags) == {"rapt.kind", "rapt.cell", "protection"}


def test_a_run_says_how_far_it_is_above_sending_nothing(children: dict[str, Any]) -> None:
    found = children["movies-minilm-lora-pct2t-75"].data.metrics
    assert found["over_local"] == pytest.approx(0.3)
    assert found["combined/accuracy"] == pytest.approx(0.9)
    alone = children["movies"].data.metrics["accuracy"]
    assert found["local/accuracy"] == found["to_beat"] == alone
    assert "combined/accuracy" not in children["movies-minilm-lora-clean"].data.metrics
    assert children["movies"].info.run_name == "local-movies"
