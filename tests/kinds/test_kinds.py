"""What every kind of task must do: the suite runs over the registry, so a new one is in it.

A seed is tuned on a small release of the kind, and its adapter is loaded and asked.
"""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from rapt import paths
from rapt.kinds import KINDS, kind_of
from rapt.kinds.messages import Text
from rapt.results.cells import SeedResult
from rapt.serving.model import Adapted
from rapt.serving.protocol import contract_of
from rapt.tasks import TASKS
from rapt.tuning.config import Decoding, Run, TrainConfig, Trained
from rapt.tuning.train import train_seeds
from rapt.tuning.tuners import TUNERS, Lora
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.serving.conftest import write_gpt2
from tests.tuning.conftest import backbone as backbone
from tests.tuning.conftest import write_release

ROWS = 24


class Sample(NamedTuple):
    """A release of a kind: its columns beside the ids, and the labels of its statement."""

    columns: dict[str, list[Any]]
    labels: list[str] | None


SAMPLES = {
    "classify": Sample(
        {
            "words": [["film", "so", ("bad", "good")[row % 2]] for row in range(ROWS)],
            "segment": [[0, 0, 0]] * ROWS,
            "label": [row % 2 for row in range(ROWS)],
        },
        ["no", "yes"],
    ),
    "choose": Sample(
        {
            "words": [["film", "plot", "very", "so"] for _ in range(ROWS)],
            "segment": [[0, 1, 2, 3]] * ROWS,
            "label": [row % 3 for row in range(ROWS)],
        },
        ["good", "bad", "so"],  # one token each for the tiny model
    ),
    "generate": Sample(
        {
            "words": [["film", "plot", "film", "."] for _ in range(ROWS)],
            "segment": [[0, 0, 1, 1]] * ROWS,
            "space_after": [[True] * 4] * ROWS,
        },
        None,
    ),
}
names = pytest.mark.parametrize("name", list(KINDS.data))


class Tuned(NamedTuple):
    run: Run
    answers: dict[str, Any]
    metrics: dict[str, float]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, backbone: Path) -> dict[str, Tuned]:
    """A seed of each kind."""
    return {name: tune(name, tmp_path_factory.mktemp(name), backbone) for name in KINDS.data}


def tune(name: str, root: Path, backbone: Path) -> Tuned:
    columns, labels = SAMPLES[name]
    (root / "release").mkdir()
    release = write_release(
        root / "release", {"train": columns, "test": columns}, kind=name, labels=labels
    )
    kind = kind_of(files.read_json(paths.statement(release)))
    if kind.is_language_model:
        backbone = root / "gpt2"
        write_gpt2(backbone)
    run = Run(
        cell=name,
        release=release,
        k=0,
        seed=0,
        backbone=backbone,
        backbone_name=str(backbone),
        tuner=Lora(r=4, alpha=8, dropout=0.0, learning_rate=0.02),
        train=TrainConfig(epochs=2, batch_size=8, max_tokens=40, held_out=0.25),
        adapter=root / "seed-0",
        kind=kind,
        decoding=Decoding(beams=2, max_new_tokens=5),
    )
    (trained,) = train_seeds([run])
    losses = trained.result.curves["task_loss"]
    assert losses[-1] < losses[0]
    assert trained.checkpoint
    trained.checkpoint.unlink()
    return Tuned(run, trained.answers, trained.result.metrics)


def texts(run: Run) -> list[Text]:
    """The test split as a query has it."""
    table = files.read_parquet(run.release / "seed-0/test.parquet")
    names = [name for name in Text.model_fields if name in table.column_names]
    kept = [{name: row[name] for name in names} for row in table.to_pylist()]
    if run.kind.keeps_spacing:  # without what was written
        for row in kept:
            sources = row["segment"].count(0)
            row |= {key: row[key][:sources] for key in ("words", "segment", "space_after")}
    return [Text(**row) for row in kept]


def test_each_kind_has_a_sample_here_and_a_half_on_the_user_s_side() -> None:
    assert set(SAMPLES) == set(KINDS.data) == set(TASKS.data)


@names
def test_both_halves_agree(name: str) -> None:
    kind, task = KINDS[name], TASKS[name]
    assert kind.keeps_spacing == task.keeps_spacing
    assert kind.has_classes == ("label" in task.model_fields)
    assert (kind.target is None) == task.scored_apart
    assert kind.path.startswith("/")
    assert 0 < kind.at_a_time <= 32
    assert not kind.is_causal or kind.is_language_model


@names
def test_some_tuner_fits_and_each_says_so(name: str) -> None:
    fitting = {tuner for tuner, made in TUNERS.data.items() if made.fits(KINDS[name])}
    assert {"lora", "full", "prompt-tuning", "p-tuning", "prefix-tuning"} <= fitting
    heads = {"linear-probe", "tfidf"}
    assert heads & fitting == (set() if KINDS[name].is_language_model else heads)
    assert ("untuned" in fitting) == KINDS[name].is_language_model


@names
def test_the_adapter_answers_as_the_training_did(name: str, tuned: dict[str, Tuned]) -> None:
    run, answers, _ = tuned[name]
    adapted = Adapted(run.adapter)
    assert adapted.contract == contract_of(run.adapter)
    served = adapted.answer(texts(run))
    assert len(served) == ROWS
    if run.kind.has_classes:
        expected = torch.tensor(answers["test"]).double().softmax(1)
        np.testing.assert_allclose(served, expected, atol=1e-5)
    else:
        assert served == list(answers["test"])


@names
def test_an_answer_goes_over_the_wire(name: str, tuned: dict[str, Tuned]) -> None:
    kind = tuned[name].run.kind
    served = Adapted(tuned[name].run.adapter).answer(texts(tuned[name].run))
    message = kind.answers.of(kind.labels, served)
    read = kind.answers.model_validate_json(message.model_dump_json())
    assert list(read.rows(kind.labels) or ()) == list(served)
    assert not kind.has_classes or read.rows(("other", *kind.labels[1:])) is None
    for answer in served[:3]:
        assert "\n" not in kind.as_line(answer)
        assert kind.as_json(answer)


@names
def test_the_contract_is_that_of_the_kind(name: str, tuned: dict[str, Tuned]) -> None:
    contract, kind = contract_of(tuned[name].run.adapter), tuned[name].run.kind
    assert (contract.kind, tuple(contract.labels)) == (name, kind.labels)
    columns = SAMPLES[name].columns
    if not kind.keeps_spacing:
        assert contract.segments == 1 + max(map(max, columns["segment"]))
    assert (contract.decoding is not None) == kind.decodes(contract.decoding or Decoding())


@names
@pytest.mark.parametrize("change", ["kind", "segments", "labels", "decoding"])
def test_a_contract_that_no_run_writes_is_one_line(
    name: str, change: str, tuned: dict[str, Tuned], tmp_path: Path
) -> None:
    content = files.read_json(tuned[name].run.adapter / "rapt.json")
    decoding = None if content["decoding"] else Decoding().model_dump()
    wrong = {
        "kind": "clasify",
        "segments": 7,
        "labels": ["twice"] * max(2, len(content["labels"])),
        "decoding": decoding,
    }
    files.write_json(tmp_path / "rapt.json", content | {change: wrong[change]})
    with pytest.raises(RaptError, match=rf"rapt\.json: {change}: got .*, expected ") as error:
        contract_of(tmp_path)
    assert "\n" not in str(error.value)


@names
def test_no_more_words_are_read_than_tokens(name: str, tuned: dict[str, Tuned]) -> None:
    kind = tuned[name].run.kind
    for is_pair in (False, True):
        sizes = [50] * kind.segments(is_pair=is_pair)
        kept = kind.readable(sizes, 40, chat=False)
        assert len(kept) == len(sizes)
        assert 0 < sum(len(range(size)[part]) for size, part in zip(sizes, kept, strict=True)) <= 40


@names
def test_what_was_answered_is_written_and_scored(
    name: str, tuned: dict[str, Tuned], tmp_path: Path
) -> None:
    run, answers, metrics = tuned[name]
    path = tmp_path / "predictions.parquet"
    trained = [Trained(SeedResult(seed=0, metrics=metrics), answers, "cpu", None)] * 2
    counts, intervals, baselines = run.kind.write_all(path, run.release, run.train, trained)
    assert counts == {"train": ROWS, "test": ROWS}
    held_out = ROWS // 4 if run.kind.has_classes else 0
    assert len(files.read_parquet(path)) == 2 * (ROWS + held_out)
    assert set(answers) == ({"train", "test"} if held_out else {"test"})
    if TASKS[name].scored_apart:
        assert not intervals
    else:
        low, high = intervals[run.kind.metric]
        assert low <= metrics[run.kind.metric] <= high
        assert baselines


@names
def test_texts_too_long_for_the_backbone_are_one_line(
    name: str, tuned: dict[str, Tuned], tmp_path: Path
) -> None:
    run = tuned[name].run
    columns = dict(SAMPLES[name].columns)
    columns["words"] = [["film"] * 400, *columns["words"][1:]]
    for column in ("segment", "space_after"):
        if column in columns:
            own = columns[column][0]
            columns[column] = [[own[0]] * (401 - len(own)) + own[1:], *columns[column][1:]]
    splits = {"train": columns, "test": columns}
    labels = SAMPLES[name].labels
    (tmp_path / "long").mkdir()
    release = write_release(tmp_path / "long", splits, kind=name, labels=labels)
    train = run.train.model_copy(update={"max_tokens": 400})
    long = replace(run, release=release, train=train, adapter=tmp_path / "seed-0")
    line = rf"^{name}, seed 0: train\.max_tokens: got \d+ tokens .*, expected at most \d+ beside"
    with pytest.raises(RaptError, match=line):
        train_seeds([long])


def test_nobody_else_asks_for_a_kind_by_its_name() -> None:
    modules = [*(ROOT / "rapt").rglob("*.py"), *(ROOT / "stages").rglob("*.py")]
    own = {ROOT / "rapt/kinds", ROOT / "rapt/tasks"}
    asking = [
        path
        for path in modules
        if path.parent not in own
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in KINDS.data
    ]
    assert len(modules) > 200
    assert asking == []
