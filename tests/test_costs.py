"""What `rapt plan` estimates, against computations by hand."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from ruamel.yaml import YAML
from safetensors.numpy import save_file
from torch.nn import LSTM

from rapt import files, params, presets
from rapt.costs import Estimate, measured, model_of
from rapt.errors import RaptError
from rapt.preview import preview
from tests.conftest import ROOT

DEMO = YAML(typ="safe").load(ROOT / "params.yaml")
H, LAYERS, VOCABULARY = 8, 2, 50
# Of the small model below: its matrices, and with its embeddings.
ACTIVE = LAYERS * (4 * H * H + H)
PARAMETERS = ACTIVE + VOCABULARY * H


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with ten training texts of five words and a small model of two layers."""
    (tmp_path / "presets").symlink_to(ROOT / "presets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for split in ("train", "test"):
        rows = "\n".join(f"one two three four five,{i % 2}" for i in range(10))
        Path(f"{split}.csv").write_text(f"text,label\n{rows}\n")
    Path("model").mkdir()
    shape = {"hidden_size": H, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY}
    files.write_json("model/config.json", shape)
    weights: dict[str, Any] = {"embeddings.weight": np.zeros((VOCABULARY, H), np.float32)}
    for layer in range(LAYERS):
        weights[f"{layer}.bias"] = np.zeros(H, np.float32)
        for name in "qkvo":
            weights[f"{layer}.{name}"] = np.zeros((H, H), np.float32)
    save_file(weights, "model/model.safetensors")
    return tmp_path


def experiment(encoder: dict[str, Any] | None = None, **tuners: Any) -> params.Params:
    """Three seeds of four epochs on one task, by one method with four plain tokens, at 75."""
    content = copy.deepcopy(DEMO)
    task = content["tasks"]["movies"]
    task["source"] = {
        "type": "files",
        "files": {"train": "train.csv", "test": "test.csv"},
        "sha256": None,
    }
    task["format"] = {"type": "csv", "names": None, "skip_rows": 0, "quoted": True}
    task["label"] = {"column": "label", "names": ["0", "1"], "threshold": None}
    task["rows"] = {"train": None, "test": None}
    content["backbones"]["minilm"] = {"model": "model", "sha256": None, "encoder": encoder}
    content["embeddings"]["minilm"]["model"] = "model"
    content["methods"]["rapt"]["plain_tokens"]["length"] = 4
    content["sweep"] |= {"tasks": ["movies"], "infer": [], "inversions": [], "etas": [75]}
    content["sweep"] |= {"channel_inversions": [], "channels": [], "recognize": []}
    content["sweep"] |= {"methods": ["rapt"], "tuners": list(tuners)}
    content |= {"seeds": 3, "studies": {}, "tuners": tuners}
    content["train"]["epochs"] = 4
    return params.validate(content)


FULL = {"type": "full", "learning_rate": 0.1}
LORA = {
    "type": "lora",
    "r": 3,
    "alpha": 1,
    "dropout": 0,
    "quantize": None,
    "learning_rate": 0.1,
}
PROMPT = {"type": "prompt-tuning", "tokens": 7, "learning_rate": 0.1}
PREFIX = {"type": "prefix-tuning", "tokens": 7, "learning_rate": 0.1}
# 5 words and 4 plain ones of 1.3 tokens, [CLS] and [SEP].
LENGTH = 1.3 * 5 + 1.3 * 4 + 2


@pytest.mark.parametrize(
    ("tuner", "length", "each", "weights"),
    [
        (FULL, LENGTH, 6 * ACTIVE, PARAMETERS),
        (LORA, LENGTH, 4 * ACTIVE + 6 * LAYERS * 2 * 3 * 2 * H, LAYERS * 2 * 3 * 2 * H),
        (PROMPT, LENGTH + 7, 4 * ACTIVE, 7 * H),
        (PREFIX, LENGTH, 4 * ACTIVE, LAYERS * 2 * 7 * H),
    ],
)
def test_a_cell_costs_what_one_computes_by_hand(
    workspace: Path, tuner: dict[str, Any], length: float, each: int, weights: int
) -> None:
    estimate = Estimate(experiment(one=tuner))
    (cell,) = estimate.tuned
    assert estimate.length(cell) == pytest.approx(length)
    # 3 seeds x 10 rows x 4 epochs
    assert estimate.flops(cell) == pytest.approx(120 * length * each)
    assert estimate.weights(cell) == 3 * 4 * weights
    # 3 seeds x 10 rows x (5 words + 4 plain ones)
    assert estimate.words(noisy=True) == 270
    assert estimate.tables() == 2 * 4 * VOCABULARY * H
    # What learns, with the reconstruction head, and its two moments.
    assert estimate.checkpoints() == 3 * 3 * 4 * (weights + 96 * (H + VOCABULARY))


def test_the_network_of_p_tuning_learns_and_is_not_written(workspace: Path) -> None:
    estimate = Estimate(experiment(one=PROMPT | {"type": "p-tuning", "hidden": 5}))
    (cell,) = estimate.tuned
    assert estimate.weights(cell) == 3 * 4 * 7 * H
    learnt = 7 * H + (H + 5 + H) * 5 + 96 * (H + VOCABULARY)
    assert estimate.checkpoints() == 3 * 3 * 4 * learnt


def test_denoised_words_take_a_vector_each_for_every_seed(workspace: Path) -> None:
    p = experiment(one=LORA)
    sweep = {"channels": ["rapt"], "denoisers": ["posterior-mean"]}
    estimate = Estimate(p.model_copy(update={"sweep": p.sweep.model_copy(update=sweep)}))
    plain, denoised = estimate.tuned
    assert estimate.length(plain) - estimate.length(denoised) == pytest.approx(5 * 0.3)
    more = (estimate.weights(denoised) or 0) - (estimate.weights(plain) or 0)
    assert more == 3 * 4 * VOCABULARY * H


def test_a_release_of_the_originals_needs_no_noise(workspace: Path) -> None:
    p = experiment(one=FULL)
    p = p.model_copy(update={"sweep": p.sweep.model_copy(update={"etas": ["75", "inf"]})})
    assert Estimate(p).words(noisy=True) == 270
    assert Estimate(p).words(noisy=False) == 540


def test_vectors_take_disk_and_one_position_a_word(workspace: Path) -> None:
    p = experiment(one=FULL)
    words = Estimate(p).releases()
    sweep = p.sweep.model_copy(update={"methods": ["token-representation"]})
    estimate = Estimate(p.model_copy(update={"sweep": sweep}))
    assert estimate.length(estimate.tuned[0]) == 5 + 2
    # 3 seeds x 10 rows x 5 words; of the method rapt 4 plain ones as well.
    assert estimate.releases() == 150 * (4 + 1.5 * H)
    assert words == 270 * 4
    Path("model/config.json").unlink()
    assert Estimate(p.model_copy(update={"sweep": sweep})).releases() is None


def test_texts_are_cut_and_rows_are_limited(workspace: Path) -> None:
    p = experiment(one=FULL)
    rows = p.tasks["movies"].rows.model_copy(update={"train": 6})
    task = p.tasks["movies"].model_copy(update={"rows": rows})
    p = p.model_copy(update={"tasks": {"movies": task}})
    assert Estimate(p).texts["movies"].rows == 6
    for split in ("train", "test"):
        Path(f"{split}.csv").write_text("text,label\n" + f"{'word ' * 1000},0\n" * 10)
    estimate = Estimate(p)
    assert estimate.length(estimate.tuned[0]) == 64 + 1.3 * 4 + 2


def test_what_is_not_here_is_unknown_until_it_is_given(workspace: Path) -> None:
    Path("train.csv").unlink()
    Path("model/config.json").unlink()
    p = experiment(one=FULL)
    unknown = Estimate(p)
    (cell,) = unknown.tuned
    assert unknown.flops(cell) is unknown.weights(cell) is unknown.words(noisy=True) is None
    assert unknown.tables() is None
    assert unknown.guessed == ["movies"]
    given = Estimate(p, rows={"": 100}, parameters={"minilm": 1e6})
    # As long as train.max_tokens allows.
    assert given.flops(cell) == pytest.approx(3 * 100 * 4 * (64 + 1.3 * 4 + 2) * 6e6)
    assert given.weights(cell) == 3 * 4e6


def test_a_bilstm_costs_what_torch_makes(workspace: Path) -> None:
    """On the embeddings of the small model; also where the model is not here."""
    encoder = {"type": "bilstm", "hidden": 5, "layers": 2, "dropout": 0.0}
    p = experiment(encoder, one=FULL)
    lstm = sum(w.numel() for w in LSTM(H, 5, 2, bidirectional=True).parameters())
    (cell,) = Estimate(p).tuned
    assert Estimate(p).flops(cell) == pytest.approx(120 * LENGTH * 6 * lstm)
    assert Estimate(p).weights(cell) == 3 * 4 * (lstm + VOCABULARY * H)
    # Its embeddings are frozen; a state has both directions.
    assert Estimate(p).checkpoints() == 3 * 3 * 4 * (lstm + 96 * (2 * 5 + VOCABULARY))
    Path("model/config.json").unlink()
    assert Estimate(p).weights(cell) is None
    # Then the vocabulary is taken to be BERT's.
    given = Estimate(p, parameters={"minilm": lstm + 30_522 * H})
    assert given.flops(cell) == pytest.approx(120 * LENGTH * 6 * lstm)
    assert given.weights(cell) == pytest.approx(3 * 4 * (lstm + 30_522 * H))


def test_of_an_encoder_decoder_the_encoder_counts(workspace: Path) -> None:
    weights = {f"{half}.q": np.zeros((H, H), np.float32) for half in ("encoder", "decoder")}
    save_file(weights, "model/model.safetensors")
    model = Estimate(experiment(one=FULL)).models["minilm"]
    assert model is not None
    assert model.parameters == model.active == H * H


@pytest.mark.parametrize(("width", "depth"), [("d_model", "num_layers"), ("n_embd", "n_layer")])
def test_t5_and_gpt2_name_their_shape_otherwise(workspace: Path, width: str, depth: str) -> None:
    shape = {width: H, depth: LAYERS, "vocab_size": VOCABULARY}
    files.write_json("model/config.json", shape)
    model = Estimate(experiment(one=FULL)).models["minilm"]
    assert model is not None
    assert model.shape == (H, LAYERS, VOCABULARY)


def test_the_packaged_model_is_found() -> None:
    model = Estimate(params.load(ROOT / "params.yaml")).models["minilm"]
    assert model is not None
    assert model.parameters == 22_713_216  # as all-MiniLM-L6-v2 has
    assert model.active == model.parameters - 30_522 * 384


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("google-bert/bert-base-uncased", hf.BertConfig()),
        ("google-t5/t5-base", hf.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12)),
        (
            "Qwen/Qwen2.5-3B",
            hf.Qwen2Config(
                vocab_size=151_936,
                hidden_size=2048,
                intermediate_size=11_008,
                num_hidden_layers=36,
                num_attention_heads=16,
                num_key_value_heads=2,
            ),
        ),
        (
            "meta-llama/Meta-Llama-3-8B",
            hf.LlamaConfig(vocab_size=128_256, intermediate_size=14_336, num_key_value_heads=8),
        ),
        ("mistralai/Mistral-7B-v0.1", hf.MistralConfig()),
    ],
)
def test_a_model_on_the_hub_has_the_size_that_its_config_makes(name: str, config: Any) -> None:
    auto = hf.AutoModelForTextEncoding if config.model_type == "t5" else hf.AutoModel
    with torch.device("meta"):
        weights = sum(w.numel() for w in auto.from_config(config).parameters())
    model = model_of(f"{name}@a-revision")
    assert model is not None
    assert model.parameters == weights
    shape = (config.hidden_size, config.num_hidden_layers, config.vocab_size)
    assert model.shape == shape
    assert model.active == weights - shape[0] * shape[2]


def test_speed_is_that_of_the_cells_that_ran_here(workspace: Path) -> None:
    p = experiment(one=FULL, other=PROMPT, third=LORA)
    assert measured(p) == {}
    cells = Estimate(p).tuned
    for cell, device, seconds in zip(cells, ("cpu", "cpu", "A GPU"), (10, 20, 2), strict=True):
        run = {"device": device, "seconds": seconds}
        files.write_json(f".rapt/runs/train/{cell.cell}.json", run)
    flops = [Estimate(p).flops(cell) or 0 for cell in cells]
    expected = {"cpu": (flops[0] / 10 + flops[1] / 20) / 2, "gpu": flops[2] / 2}
    assert measured(p) == pytest.approx(expected)


def shown(capsys: pytest.CaptureFixture[str], what: str | None, **given: Any) -> str:
    preview(what, **({"rows": [], "parameters": [], "tflops": None} | given))
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
    assert "216 cells (216 train), 5 seeds: 1,080" in unknown
    assert "h, and 72 cells unknown, at 10 useful TFLOP/s (assumed" in unknown
    assert "the rows of happydb; give --rows happydb=N" in unknown
    assert "bert; give --parameters" not in unknown  # it is known of the hub
    assert "adapters about 120 GB; releases unknown of training splits" in unknown
    # Five seeds of full fine-tuning: 109 million weights, each with two moments.
    assert "checkpoints of the largest cell up to about 6.7 GB while" in unknown
    rows = ["sst2=1000", "qqp=1000", "happydb=1K"]
    given = shown(capsys, "paper-nlu-bert", rows=rows, parameters=["0.1B"], tflops=1.0)
    # 3 x 18 cells x 5 seeds x 4 epochs, 3,000 rows in all; six cells of a tuner have 40 plain ones.
    tokens = 5 * 4 * 3_000 * (18 * 130 + 6 * 40 * 1.3)
    prompt = 5 * 4 * 3_000 * 18 * 150
    hours = (tokens * (6 + 3 * 4) + prompt * 4) * 1e8 / 1e12 / 3600
    assert f"up to about {float(f'{hours:.2g}'):g} h, at 1 useful" in given
    assert "adapters about 110 GB, and 162 cells unknown" in given  # 54 x 5 x 0.4 GB
    text = presets.text("paper-nlu-bert").replace("google-bert/bert-base-uncased", "my/bert")
    Path("mine.yaml").write_text(text)
    assert "Not here yet: bert; give --parameters bert=3B" in shown(capsys, "mine.yaml")


def test_a_preview_takes_a_file_and_measures(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = presets.text("demo")
    Path("params.yaml").write_text(text)
    Path("mine.yml").write_text(text.replace("seeds: 2", "seeds: 7"))
    assert "7 seeds: 70 training runs" in shown(capsys, "mine.yml")
    before = shown(capsys, None)
    assert before.startswith("params.yaml: ")
    assert "Tuning on this CPU: unknown" in before
    for split in ("train", "test"):
        columns = {"text": ["a text of five words"] * 640, "text_pair": [None] * 640}
        import pyarrow as pa

        files.write_parquet(f"data/raw/movies/{split}.parquet", pa.table(columns))
    cell = "movies-minilm-lora-pct2t-75"
    files.write_json(f".rapt/runs/train/{cell}.json", {"device": "cpu", "seconds": 36})
    after = shown(capsys, None)
    # Ten cells like this one, three of them and the study with plain tokens: 8.5 or 21.5 tokens.
    seconds = 36 * (6 * 8.5 + 4 * 21.5) / 8.5
    assert f"this CPU: about {float(f'{seconds / 60:.2g}'):g} min" in after


def test_a_preview_warns_of_too_many_cells(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = presets.text("paper-nlu-bert")
    assert "More than 250 cells" not in shown(capsys, "paper-nlu-bert")
    Path("many.yaml").write_text(
        text.replace("\n  inversions: []", "\n  inversions:\n    - nearest")
    )
    # 216 + 54 cells
    assert "More than 250 cells: DVC writes dvc.lock anew for each, about 2.6 min" in shown(
        capsys, "many.yaml"
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"rows": ["sst=5"]}, r"^--rows: 'sst' given, .*did you mean 'sst2'\?$"),
        ({"rows": ["sst2=many"]}, r"^--rows: 'sst2=many' given, allowed: .*$"),
        ({"parameters": ["three"]}, r"^--parameters: 'three' given, allowed: .*$"),
        ({"parameters": ["-3B"]}, r"^--parameters: '-3B' given, allowed: .*$"),
        ({"rows": ["sst2=inf"]}, r"^--rows: 'sst2=inf' given, allowed: .*$"),
        ({"tflops": 0.0}, r"^--tflops: 0 given, allowed: above 0$"),
    ],
)
def test_a_preview_ends_with_the_one_line(
    workspace: Path, given: dict[str, Any], line: str
) -> None:
    with pytest.raises(RaptError, match=line):
        preview("sst2-minilm", **({"rows": [], "parameters": [], "tflops": None} | given))


def test_json_of_a_header_is_read_without_the_weights(workspace: Path) -> None:
    path = Path("model/model.safetensors")
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    json.loads(content[8 : 8 + size])
    path.write_bytes(content[: 8 + size])
    model = Estimate(experiment(one=FULL)).models["minilm"]
    assert model is not None
    assert model.parameters == PARAMETERS
