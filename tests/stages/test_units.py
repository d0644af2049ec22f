"""Releases of whole texts, from the stage that makes them to those that read them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rapt import params
from rapt.kinds.messages import Text
from rapt.privacy.released import STAND_IN, HiddenStates, NewText, Released, TextVector
from rapt.release.ledger import Ledger
from rapt.release.text import TAGGER
from rapt.reporting.utility_table import utility
from rapt.results import reader
from rapt.serving.combining import Combined
from rapt.serving.model import Adapted
from rapt.serving.prediction_privatizer import PredictionPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import backbone as backbone_stage
from stages import gate_private, infer, invert, link, membership, privatize, train
from tests import tiny
from tests.stages.conftest import edited, put_columns

COLUMNS: dict[type[Released], list[str]] = {
    HiddenStates: ["example_id", "states", "label"],
    TextVector: ["example_id", "vector", "label"],
    NewText: ["example_id", "segment", "words", "label"],
}
GATE = Path("reports/gates/private/mine")


@pytest.fixture
def narrow(small: Path, backbone: Path) -> Path:
    """A workspace whose texts have authors, and a backbone of the table's dimension."""
    tiny.of_width(8, backbone, Path("narrow"))
    for split in ("train", "test"):
        put_columns(f"data/tagged/mine/{split}.parquet", attribute_author=["me", "you"] * 12)
    return small


def sweeping(*methods: str, **mechanisms: Any) -> params.Params:
    """Sweep over methods alone whose mechanisms release texts as a whole."""
    with edited() as content:
        content["backbones"]["tiny"] = {"model": "narrow", "sha256": None, "encoder": None}
        for name, mechanism in mechanisms.items():
            content["methods"][name] = {"mechanism": mechanism}
        content["attacks"]["rows"] = "nearest-row"
        content["sweep"] |= {"methods": [*methods], "attacked": [*methods], "etas": [3]}
        content["sweep"] |= {"tune_at": [3], "train": ["mine"], "infer": ["mine"], "channels": []}
        content["sweep"] |= {"channel_inversions": [], "memberships": ["loss"]}
        content["train"]["held_out"] = 0.25
    return params.load()


def walk(method: str, unit: type[Released]) -> dict[str, Any]:
    """Take a method from its release to every cell that reads one; returns the statement."""
    out = Path(f"data/private/mine/{method}-3")
    privatize.main("mine", method, "3", "minilm", out)
    digest = files.sha256(out)
    privatize.main("mine", method, "3", "minilm", out)
    assert files.sha256(out) == digest
    released = files.read_parquet(out / "seed-0/test.parquet")
    assert released.column_names == COLUMNS[unit]
    gate(method)
    backbone_stage.main("tiny")
    train.main(f"mine-tiny-lora-{method}-3", "mine", "tiny", "lora", method, "3")
    infer.main("mlp", "mine", method, "3")
    membership.main("loss", "mine", "tiny", "lora", method, "3")
    link.main("linkage", "mine", method, "3")
    if unit.by_word:
        invert.main("rows", "mine", method, "3")
        rows = files.read_json(f"reports/cells/invert/rows-mine-{method}-3.json")
        assert rows["counts"]["words"] == rows["counts"]["protected"] > 0
        assert 0 <= rows["metrics"]["accuracy"]["mean"] <= 1
    named = {"train": "mine-tiny-lora", "infer": "mlp-mine", "link": "linkage-mine"}
    for kind, name in named.items():
        cell = files.read_json(f"reports/cells/{kind}/{name}-{method}-3.json")
        assert [seed["seed"] for seed in cell["seeds"]] == [0, 1]
        shares = {n: value["mean"] for n, value in cell["metrics"].items() if n != "rank"}
        assert all(0 <= share <= 1 for share in shares.values())
    cell = files.read_json(f"reports/cells/membership/loss-mine-tiny-lora-{method}-3.json")
    assert cell["counts"] == {"members": 18, "others": 24}
    statement: dict[str, Any] = files.read_json(out / "statement.json")
    assert statement["releases"] == unit.name
    told = out.with_name(f"{out.name}.txt").read_text()
    assert f"The release holds {unit.name}." in told
    assert "This release holds each text 2 times." in told
    assert "word for word" not in told and "WEAK" not in told
    return statement


def predicted(model: Adapted) -> list[Text]:
    """Ask for the class of a new text, whose release the ledger counts; returns what is sent.

    A local model is combined with the answer: the provider is asked about rows of the release.
    """
    table = Path("models/tables/minilm")
    privatize = PredictionPrivatizer(model.contract, 3.0, table, TAGGER)
    sent, counts = privatize([["nouna verbb nounc"]])
    assert sum(model.answer(sent)[0]) == pytest.approx(1)
    assert privatize([["nouna verbb nounc"]])[0][0].vectors != sent[0].vectors
    first, second, again = privatize.said(counts)
    assert first.endswith(f"at eta 3 releases {model.contract.statement.releases}")
    assert "the privacy loss of a text is " in second.lower()
    assert again.startswith("The ledger knows some of these texts")
    assert Ledger().total()[:2] == (1, 2)
    clear, _ = PredictionPrivatizer(model.contract, math.inf, table, TAGGER)(
        [["nouna verbb nounc"]]
    )
    assert np.isfinite(np.frombuffer(clear[0].vectors or b"", "<f4")).all()
    assert Ledger().total()[:2] == (1, 2)
    release = Path(f"data/private/mine/{model.contract.statement.method}-3")
    both = Combined(model, Path("data/tagged/mine"), release, table, TAGGER)
    assert both.rows == 6
    (answer,) = both([["nouna verbb nounc"]], [model.answer(sent)[0]])
    assert sum(answer) == pytest.approx(1)
    return sent


def gate(method: str) -> dict[str, Any]:
    """Check a release, and return the gate's JSON; raise if it fails."""
    out = Path(f"data/private/mine/{method}-3")
    report = gate_private.compare(out, params.load(), "mine", method, "3", "minilm")
    gate_private.write(GATE, {f"{method}-3": report})
    return report


ENCODED = {"type": "purkayastha", "encoder": "narrow"}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["sequence-representation", ENCODED, "dpnr"])
def test_a_vector_for_each_text_goes_from_the_release_to_every_cell(
    narrow: Path, mechanism: Any
) -> None:
    """By the mean of the words' vectors, by a model, and with words left out."""
    sweeping("whole", whole=mechanism)
    statement = walk("whole", TextVector)
    assert statement["protection"] == "d_X-privacy"
    assert (statement["words"], statement["strength"], statement["names"]) == (None, None, None)
    assert statement["claim"]["unit"] == "one text"
    assert statement["budget_of_the_longest"]["words"] == 2
    assert "losses add up over releases of a text" in statement["guarantee"]
    results = reader.load(params.load())
    (row,) = [row for row in utility(results) if row.method == "whole"]
    assert (row.replaced_share, row.eta) == (None, "3")
    model = Adapted(Path("models/adapters/mine-tiny-lora-whole-3/seed-0"))
    assert model.contract.statement.releases == TextVector.name
    assert model.contract.statement.vectors
    (sent,) = predicted(model)
    assert (sent.words, sent.segment) == ([STAND_IN], [0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["split", "dp-forward"])
def test_hidden_states_enter_a_provider_s_model_after_the_user_s_layers(
    narrow: Path, kind: str
) -> None:
    how = {"type": kind, "encoder": str(narrow / "narrow"), "layer": 1}
    how |= {"tokens": 4} if kind == "dp-forward" else {}
    sweeping("states", states=how)
    statement = walk("states", HiddenStates)
    assert statement["parameters"]["layer"] == 1
    assert statement["claim"]["unit"] == "one text"
    model = Adapted(Path("models/adapters/mine-tiny-lora-states-3/seed-0"))
    assert model.contract.statement.layer == 1
    backbone = model._model.backbone.get_base_model()
    assert len(backbone.encoder.layer) == 1
    (sent,) = predicted(model)
    assert {*sent.words} == {STAND_IN} and len(sent.vectors or b"") == 4 * 8 * len(sent.words)
    assert len(sent.words) == 4 or kind == "split"
    with edited() as content:
        content["methods"]["states"]["mechanism"]["layer"] = 2
    with pytest.raises(RaptError, match=r"^layer: got 2, expected at most 1"):
        privatize.main("mine", "states", "3", "minilm", Path("data/private/mine/states-3"))


def test_states_that_are_led_to_neighbours_are_made_again(narrow: Path) -> None:
    """Whatever texts are read beside a text."""
    sweeping("led", led={"type": "privtune", "encoder": str(narrow / "narrow"), "layer": 1})
    privatize.main("mine", "led", "3", "minilm", Path("data/private/mine/led-3"))
    assert gate("led")["passed"]


def test_the_vector_of_a_text_is_its_mean_with_noise_of_its_own(narrow: Path) -> None:
    sweeping("whole", whole="sequence-representation")
    for eta in ("3", "inf"):
        privatize.main("mine", "whole", eta, "minilm", Path(f"data/private/mine/whole-{eta}"))
    table = EmbeddingTable("models/tables/minilm")
    texts = files.read_parquet("data/tagged/mine/test.parquet")["words"].to_pylist()
    means = np.array([table.embed(text).mean(axis=0) for text in texts])

    def vectors(eta: str, k: int) -> Any:
        path = f"data/private/mine/whole-{eta}/seed-{k}/test.parquet"
        return TextVector.positions(files.read_parquet(path)).vectors

    np.testing.assert_allclose(vectors("inf", 0), means, atol=2.0**-10)
    assert (vectors("inf", 0) == vectors("inf", 1)).all()
    noise = np.linalg.norm(vectors("3", 0) - means, axis=1)
    assert noise.min() > 0.1 and (vectors("3", 0) != vectors("3", 1)).any(axis=1).all()
    told = Path("data/private/mine/whole-inf.txt").read_text()
    assert "UNPROTECTED" in told


def test_texts_without_a_label_are_released_and_checked(narrow: Path) -> None:
    """With a vector each, nothing of a text is beside it but its id."""
    sweeping("whole", whole="sequence-representation")
    with edited() as content:
        content["tasks"]["mine"]["label"] = None
        content["sweep"] |= {"train": [], "memberships": [], "tune_at": []}
    privatize.main("mine", "whole", "3", "minilm", Path("data/private/mine/whole-3"))
    released = files.read_parquet("data/private/mine/whole-3/seed-0/test.parquet")
    assert released.column_names == ["example_id", "vector"]
    assert gate("whole")["passed"]


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        ("number", "the vector of each text is made again: got 1 of 24"),
        ("dimension", "the vector of each text is made again: got 24 of 24"),
        ("missing", "vectors are there: got 24 of 96"),
        ("segment", "the columns are a release's"),
        ("order", "same examples: got 24 of 24"),
    ],
)
def test_a_spoilt_vector_is_stopped_by_name(narrow: Path, spoil: str, rule: str) -> None:
    sweeping("whole", whole="adept" if spoil == "number" else "sequence-representation")
    privatize.main("mine", "whole", "3", "minilm", Path("data/private/mine/whole-3"))
    report = gate("whole")
    assert report["passed"] and report["replaced"] == []
    path = Path("data/private/mine/whole-3/seed-1/test.parquet")
    table = files.read_parquet(path)
    vectors = table["vector"].to_pylist()
    kind = table.schema.field("vector").type
    if spoil == "number":
        vectors[3][0] += 1
    elif spoil == "dimension":
        vectors, kind = [vector[:4] for vector in vectors], pa.list_(pa.float32(), 4)
    table = table.set_column(1, "vector", pa.array(vectors, kind))
    if spoil == "missing":
        table = table.drop_columns(["vector"])
    elif spoil == "segment":
        table = table.append_column("segment", pa.array([[0]] * 24))
    elif spoil == "order":
        table = table.take(list(range(24))[::-1])
    files.write_parquet(path, table)
    with pytest.raises(RaptError) as error:
        gate("whole")
    assert rule in str(error.value)
