"""The MLflow mirror, on synthetic cells and a database of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
    monkeypatch.delenv("RAPT_HOME", raising=False)
    yield params.load(tmp_path / "params.yaml")


def runs() -> tuple[list, dict[str, object]]:
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


def test_what_is_synced_is_seen_without_mlflow(
    experiment: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not mlflow_mirror.is_synced(experiment)
    mlflow_mirror.sync(experiment)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)
        assert mlflow_mirror.is_synced(experiment)
    assert not mlflow_mirror.is_synced(experiment.model_copy(update={"seed": experiment.seed + 1}))
    next(Path("reports/cells/train").glob("*.json")).unlink()
    assert not mlflow_mirror.is_synced(experiment)
    mlflow_mirror.sync(experiment)
    assert mlflow_mirror.is_synced(experiment)
    Path("mlflow.db").unlink()
    assert not mlflow_mirror.is_synced(experiment)


def test_a_parent_and_a_child_for_each_cell_that_stands_alone(
    experiment: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    mlflow_mirror.sync(experiment)
    (parent,), children = runs()
    assert set(children) == expected(experiment)
    assert parent.data.tags[mlflow_mirror.SWEEP] == mlflow_mirror.sweep_id(experiment)
    for cell, run in children.items():
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        clean = cell.endswith("-clean")
        assert (run.data.tags["protection"] == "unprotected") == clean, cell
        assert (run.data.params["method"] == "clean") == clean
        assert run.info.status == "FINISHED"


def test_a_child_shows_the_trade_off(experiment: Params) -> None:
    mlflow_mirror.sync(experiment)
    run = runs()[1]["movies-minilm-lora-rapt-75"]
    cell = files.read_json("reports/cells/train/movies-minilm-lora-rapt-75.json")
    invert = files.read_json("reports/cells/invert/nearest-movies-pct2t-75.json")
    infer = files.read_json("reports/cells/infer/mlp-tweets-pct2t-75.json")
    metrics = run.data.metrics
    assert metrics["accuracy"] == cell["metrics"]["accuracy"]["mean"]
    assert metrics["accuracy_sd"] == cell["metrics"]["accuracy"]["sd"]
    inversion = invert["metrics"]["empirical_privacy"]
    for suffix, part in (("", "mean"), ("_sd", "sd"), ("_low", "low"), ("_high", "high")):
        assert metrics[f"nearest/empirical_privacy{suffix}"] == inversion[part]
    inference = infer["metrics"]["empirical_privacy_author"]["mean"]
    assert metrics["mlp/tweets/empirical_privacy_author"] == inference
    assert metrics["replaced_share"] == 0.45
    assert run.data.params["method"] == "rapt"
    assert run.data.params["tuner.type"] == "lora"
    with mlflow_mirror.store() as client:
        curve = client.get_metric_history(run.info.run_id, "seed-1/task_loss")
        artifacts = client.list_artifacts(run.info.run_id)
    assert [p.value for p in sorted(curve, key=lambda p: p.step)] == cell["seeds"][1]["curves"][
        "task_loss"
    ]
    assert [a.path for a in artifacts] == ["statement.json"]
    digests = {i.dataset.name: i.dataset.digest for i in run.inputs.dataset_inputs}
    raw = files.read_json("reports/gates/raw/movies.json")["sha256"]
    assert digests["movies train"] == raw["train"][:36]


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


def test_membership_is_shown_with_the_adapter_that_was_asked(folder: Path) -> None:
    results = load(synthetic.write(folder, synthetic.infer_membership))
    for kind, tuner in (("train", "lora"), ("train", "prefix"), ("denoise", "lora")):
        (cell,) = results.of(kind, method="t2t", eta="75", tuner=tuner)
        metrics = {name: value for name, value, _ in mlflow_mirror.record(results, cell).metrics}
        asked = [c for c in results.of("membership", method="t2t", eta="75", tuner=tuner)]
        aucs = [c.metric("auc").mean for c in asked] if kind == "train" else []
        assert [v for name, v in metrics.items() if name == "loss/auc"] == aucs


def test_syncing_again_changes_nothing(experiment: Params) -> None:
    mlflow_mirror.sync(experiment)
    before = {cell: run.info.run_id for cell, run in runs()[1].items()}
    mlflow_mirror.sync(experiment)
    parents, children = runs()
    assert len(parents) == 1
    assert {cell: run.info.run_id for cell, run in children.items()} == before


def test_a_changed_cell_replaces_its_run_alone(experiment: Params) -> None:
    mlflow_mirror.sync(experiment)
    before = {cell: run.info.run_id for cell, run in runs()[1].items()}
    changed = next(c for c in plan(experiment) if c.cell == "movies-minilm-lora-t2t-50")
    synthetic.write_cell(changed, metrics={"accuracy": {"mean": 0.9, "sd": None, "n": 1}})
    mlflow_mirror.sync(experiment)
    after = runs()[1]
    assert {c for c in before if after[c].info.run_id != before[c]} == {changed.cell}
    assert after[changed.cell].data.metrics["accuracy"] == 0.9
    assert "accuracy_sd" not in after[changed.cell].data.metrics
    assert not Path("mlartifacts", before[changed.cell]).exists()


def test_a_half_finished_sweep_is_filled_in(experiment: Params) -> None:
    late = Path("reports/cells/train/movies-minilm-lora-t2t-50.json")
    cell = late.read_bytes()
    late.unlink()
    mlflow_mirror.sync(experiment)
    assert set(runs()[1]) == expected(experiment) - {late.stem}
    late.write_bytes(cell)
    mlflow_mirror.sync(experiment)
    parents, children = runs()
    assert (len(parents), set(children)) == (1, expected(experiment))


def test_a_run_that_broke_off_is_replaced(experiment: Params) -> None:
    mlflow_mirror.sync(experiment)
    run_id = runs()[1]["movies-minilm-lora-t2t-50"].info.run_id
    with mlflow_mirror.store() as client:
        client.delete_tag(run_id, mlflow_mirror.DIGEST)
    mlflow_mirror.sync(experiment)
    assert runs()[1]["movies-minilm-lora-t2t-50"].info.run_id != run_id


def test_what_varies_is_shown_where_known(experiment: Params) -> None:
    varying = {
        "seconds": 12.5,
        "device": "cpu",
        "machine": "Linux x86_64",
        "host_cores": 2,
        "commit": "abc",
        "finished": "2026-01-02T03:04:05Z",
    }
    files.write_json(".rapt/runs/train/movies-minilm-lora-t2t-50.json", varying)
    mlflow_mirror.sync(experiment)
    run = runs()[1]["movies-minilm-lora-t2t-50"]
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


def test_a_moved_database_says_what_to_do(
    experiment: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow_mirror.sync(experiment)
    moved = tmp_path / "moved"
    moved.mkdir()
    Path("mlflow.db").rename(moved / "mlflow.db")
    monkeypatch.setenv("RAPT_HOME", str(moved))
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


def test_a_child_has_the_attacks_on_what_privatizes_alike(experiment: Params) -> None:
    """No bayes is planned on rapt's releases, which equal pct2t's, so rapt's run has pct2t's."""
    mlflow_mirror.sync(experiment)
    one, other = (
        runs()[1][f"movies-minilm-lora-{method}-75"].data.metrics for method in ("rapt", "pct2t")
    )
    assert one["bayes/empirical_privacy"] == other["bayes/empirical_privacy"]


def test_an_attack_on_what_nothing_was_tuned_on_has_its_own_run(experiment: Params) -> None:
    mlflow_mirror.sync(experiment)
    run = runs()[1]["nearest-tweets-t2t-50"]
    cell = files.read_json("reports/cells/invert/nearest-tweets-t2t-50.json")
    found, expected = run.data, cell["metrics"]["empirical_privacy"]
    assert found.metrics["empirical_privacy"] == expected["mean"]
    assert found.metrics["empirical_privacy_low"] == expected["low"]
    assert found.params["attack.type"] == "nearest-neighbour"
    assert found.params["method.mechanism.type"] == "t2t"
    assert "train.epochs" not in found.params


def test_a_tuned_task_with_attributes_is_mirrored(folder: Path) -> None:
    """Its local and tuned cells attack nothing, so none of their metrics is doubted."""
    experiment = synthetic.write(folder, synthetic.add_attribute)
    assert not mlflow_mirror.is_synced(experiment)
    results = load(experiment)
    (local,) = results.of("local")
    tags = mlflow_mirror.record(results, local).tags
    assert set(tags) == {"rapt.kind", "rapt.cell", "protection"}


def test_a_run_says_how_far_it_is_above_sending_nothing(experiment: Params) -> None:
    synthetic.write_predictions(experiment, {"local": 0.6, "t2t": 0.5, "pct2t": 0.9})
    mlflow_mirror.sync(experiment)
    _, children = runs()
    found = children["movies-minilm-lora-pct2t-75"].data.metrics
    assert found["over_local"] == pytest.approx(0.3)
    assert found["combined/accuracy"] == pytest.approx(0.9)
    alone = children["movies"].data.metrics["accuracy"]
    assert found["local/accuracy"] == found["to_beat"] == alone
    assert "combined/accuracy" not in children["movies-minilm-lora-clean"].data.metrics
    assert children["movies"].info.run_name == "local-movies"
