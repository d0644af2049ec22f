"""From private texts to a cell on synthetic ones, each step by its stage."""

import shutil
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rapt import params, paths
from rapt.results.gates import stop
from rapt.synthesis.base import Draw, Made, PrivateTexts
from rapt.utils import files
from stages import gate_private, synthesize, train
from tests.serving.conftest import write_gpt2
from tests.stages.conftest import edited

TINY = {"model": "external/writer", "delta": 0.01, "texts": 10, "sampling": {"max_new_tokens": 5}}
HOW = {
    "generator": {"tuner": {"type": "lora", "r": 2}, "epochs": 1, "batch_size": 8},
    "aug-pe": {"rounds": 2, "variations": 2},
}
FACTS = {"task": "mine", "eta": "4"}


@pytest.fixture
def private(small: Path) -> Path:
    """A workspace with raw texts beside the tagged ones, and a tiny writer."""
    for split in ("train", "test"):
        tagged = files.read_parquet(paths.tagged("mine") / f"{split}.parquet")
        texts = [" ".join(words) for words in tagged["words"].to_pylist()]
        raw = tagged.select(["example_id", "label"]).append_column("text", pa.array(texts))
        files.write_parquet(paths.raw("mine") / f"{split}.parquet", raw)
    write_gpt2(small / "external/writer")
    with edited() as content:
        content["sweep"] |= {"train": ["mine"], "synthesizers": [*HOW], "epsilons": [4]}
        content["synthesizers"] = {name: {"type": name, **TINY, **how} for name, how in HOW.items()}
    return small


@pytest.mark.slow
def test_synthetic_texts_are_gated_and_tuned_on(private: Path) -> None:
    test = files.read_parquet("data/tagged/mine/test.parquet").to_pydict()
    for name in HOW:
        release = paths.release("mine", f"{name}-4")
        synthesize.main("mine", name, "4", "minilm")
        before = files.sha256(release)
        shutil.rmtree(release)
        synthesize.main("mine", name, "4", "minilm")
        assert files.sha256(release) == before  # equal runs give equal bytes

        told = files.read_json(paths.statement(release))
        assert told["protection"] == "(4, 0.01)-differential privacy of one training text"
        made = told["synthesizer"]
        assert (made["epsilon"], made["delta"], made["of_counts"]) == (4.0, 0.01, 0.4)
        assert made["of_texts"]["noise"] > 0
        assert told["seeds"] == 2
        for k in range(2):
            rows = {s: files.read_parquet(paths.seed(release, k) / f"{s}.parquet") for s in
                    ("train", "test")}  # fmt: skip
            assert all(rows["train"]["words"].to_pylist())
            assert set(rows["train"]["label"].to_pylist()) == {0, 1}
            assert rows["test"]["words"].to_pylist() == test["words"]
            assert rows["train"].column_names == rows["test"].column_names
        one, other = (files.sha256(paths.seed(release, k) / "train.parquet") for k in range(2))
        assert one != other
        seeds = files.read_json(paths.judged("mine", f"{name}-4"))["seeds"]
        assert all(0 <= seed["copied"] <= 1 and isfinite(seed["distance"]) for seed in seeds)
        assert all(seed["membership"]["members"] == 24 and "audit" not in seed for seed in seeds)

        report = gate_private.of_synthetic(release, params.load(), FACTS | {"method": name})
        stop({"gate": report})
        cell = f"mine-tiny-lora-{name}-4"
        train.main(cell, "mine", "tiny", "lora", name, "4")
        found = files.read_json(paths.cell("train", cell))
        assert found["protection"] == told["protection"]
        assert found["counts"] == {"train": len(rows["train"]), "test": 24}
        contract = files.read_json(paths.adapter(cell) / "seed-0/rapt.json")
        assert contract["statement"]["eta"] == "inf"  # questions are asked as they are


@pytest.mark.slow
def test_a_canary_left_out_reaches_no_synthesizer_and_no_text_the_figures(
    private: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A synthesizer that copies: another half of the texts in each copy."""
    seen = []

    def copied(_: Any, texts: PrivateTexts, draw: Draw) -> Made:
        seen.append(texts.texts)
        pairs = [*zip(texts.texts, texts.labels, strict=True)]
        return Made([[text for text, of in pairs if of == label] for label in (0, 1)], {}, 0)

    monkeypatch.setattr(synthesize, "synthesize", copied)
    with edited() as content:
        content["synthesizers"]["aug-pe"]["canaries"] = 24
    synthesize.main("mine", "aug-pe", "4", "minilm")
    seeds = files.read_json(paths.judged("mine", "aug-pe-4"))["seeds"]
    assert seen[0] != seen[1]
    for texts, seed in zip(seen, seeds, strict=True):
        assert len(texts) == seed["membership"]["members"] == 24 - seed["membership"]["others"]
        assert seed["membership"]["nearest"]["auc"]["value"] > 0.7
        assert (seed["epsilon"], seed["audit"].keys()) == (4.0, {"shown", "most"})
    told = files.read_json(paths.statement(paths.release("mine", "aug-pe-4")))
    assert told["synthesizer"]["canaries"] == 24
    shown = "".join(capfd.readouterr()) + paths.judged("mine", "aug-pe-4").read_text()
    private_texts = files.read_parquet("data/raw/mine/train.parquet")["text"].to_pylist()
    assert not [text for text in private_texts if text in shown]


@pytest.mark.slow
def test_the_gate_sees_a_row_too_few_and_a_label_of_no_class(private: Path) -> None:
    synthesize.main("mine", "aug-pe", "4", "minilm")
    release = paths.release("mine", "aug-pe-4")
    path = paths.seed(release, 0) / "train.parquet"
    rows = files.read_parquet(path)

    def failed(changed: pa.Table) -> list[str]:
        files.write_parquet(path, changed)
        report = gate_private.of_synthetic(release, params.load(), FACTS | {"method": "aug-pe"})
        return [found["expectation"] for found in report["expectations"] if not found["passed"]]

    assert failed(rows) == []
    assert failed(rows.slice(1)) == ["as many rows as were made and tested"]
    labels: Any = pa.array([2] * len(rows), pa.int64())
    assert failed(rows.set_column(3, "label", labels)) == ["labels are of the set"]
    assert failed(rows.append_column("text", rows["example_id"])) == ["the columns are a release's"]
