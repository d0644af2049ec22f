"""The estimates of `rapt plan`, against computations by hand."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from ruamel.yaml import YAML
from torch.nn import LSTM
from torch.utils.flop_counter import FlopCounterMode

from rapt import params
from rapt.costs import (
    BYTES_PER_COUNTED_WORD,
    CANDIDATES,
    Estimate,
    counted,
    shape_of,
    size_of,
)
from rapt.tuning.config import Full, LinearProbe, Lora, Tuner
from rapt.tuning.model import adapt
from tests.conftest import ROOT

EVERY = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")
H, LAYERS, VOCABULARY = 8, 2, 50
CONFIG = hf.BertConfig(
    vocab_size=VOCABULARY,
    hidden_size=H,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    intermediate_size=2 * H,
    max_position_embeddings=16,
)
WEIGHTS = dict(hf.BertModel(CONFIG).named_parameters())
# Parameters of the small model, with and without its embeddings.
PARAMETERS = sum(weight.numel() for weight in WEIGHTS.values())
ACTIVE = PARAMETERS - (VOCABULARY + 16 + 2) * H


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with ten training texts of five words and a small model of two layers."""
    (tmp_path / "presets").symlink_to(ROOT / "presets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for split in ("train", "test"):
        rows = "\n".join(f"one two three four {split}{i},{i % 2}" for i in range(10))
        Path(f"{split}.csv").write_text(f"text,label\n{rows}\n")
    CONFIG.save_pretrained("model")
    return tmp_path


def experiment(encoder: dict[str, Any] | None = None, **tuners: Any) -> params.Params:
    """Three seeds of four epochs on one task, with one method, four plain tokens and η 75."""
    content = copy.deepcopy(EVERY)
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
    content["sweep"] = {name: [] for name in content["sweep"]} | {
        "tasks": ["movies"],
        "train": ["movies"],
        "embeddings": ["minilm"],
        "backbones": ["minilm"],
        "methods": ["rapt"],
        "tuners": list(tuners),
        "etas": [75],
        "tune_at": [75],
    }
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
PROBE = {"type": "linear-probe"}
PREFIX = {"type": "prefix-tuning", "tokens": 7, "learning_rate": 0.1}
R = LAYERS * 2 * 3 * 2 * H  # LoRA's weights
# 5 words and 4 plain ones of 1.3 tokens, [CLS] and [SEP].
LENGTH = 1.3 * 5 + 1.3 * 4 + 2


@pytest.mark.parametrize(
    ("tuner", "length", "forward", "backward", "weights"),
    [
        (FULL, LENGTH, 2 * ACTIVE, 4 * ACTIVE, PARAMETERS),
        (LORA, LENGTH, 2 * (ACTIVE + R), 2 * ACTIVE + 4 * R, R),
        (PROMPT, LENGTH + 7, 2 * ACTIVE, 2 * ACTIVE, 7 * H),
        (PREFIX, LENGTH, 2 * ACTIVE, 2 * ACTIVE, LAYERS * 2 * 7 * H),
    ],
)
def test_a_cell_costs_what_one_computes_by_hand(
    workspace: Path,
    tuner: dict[str, Any],
    length: float,
    forward: int,
    backward: int,
    weights: int,
) -> None:
    estimate = Estimate(experiment(one=tuner))
    _, cell = estimate.tuned  # the first is that of the clean text
    assert estimate.length(cell) == pytest.approx(length)
    # 3 seeds x 10 rows x 4 epochs; each seed then scores 10 rows.
    flops = 120 * (forward + backward) + 30 * forward
    assert estimate.flops(cell) == pytest.approx(length * flops)
    assert estimate.weights(cell) == 3 * 4 * weights
    # 3 seeds x 20 rows of both splits x (5 words + 4 plain ones)
    assert estimate.words() == 540
    assert estimate.tables() == 2 * 4 * VOCABULARY * H
    # The trained weights, and two moments.
    assert estimate.checkpoints() == 3 * 3 * 4 * weights


def test_the_network_of_p_tuning_learns_and_is_not_written(workspace: Path) -> None:
    estimate = Estimate(experiment(one=PROMPT | {"type": "p-tuning", "hidden": 5}))
    _, cell = estimate.tuned  # the first is that of the clean text
    assert estimate.weights(cell) == 3 * 4 * 7 * H
    network = (H + 5 + H) * 5 + 5 + 5 + H
    assert estimate.checkpoints() == 3 * 3 * 4 * (7 * H + network)


def test_a_probe_reads_each_text_once_and_writes_no_weights(workspace: Path) -> None:
    estimate = Estimate(experiment(one=PROBE))
    _, cell = estimate.tuned  # the first is that of the clean text
    # 10 rows to train on and 10 to score, of each of 3 seeds.
    assert estimate.flops(cell) == pytest.approx(60 * LENGTH * 2 * ACTIVE)
    assert (estimate.weights(cell), estimate.checkpoints()) == (0, 0)


def test_tf_idf_has_no_backbone(workspace: Path) -> None:
    estimate = Estimate(experiment(one={"type": "tfidf"}))
    assert {estimate.flops(cell) for cell in estimate.tuned} == {0}
    # 10 rows of 5 words, three seeds.
    assert {estimate.weights(cell) for cell in estimate.tuned} == {150 * BYTES_PER_COUNTED_WORD}
    assert not estimate.missing


def test_denoised_words_take_a_vector_each_for_every_seed(workspace: Path) -> None:
    p = experiment(one=LORA)
    sweep = {"channels": ["rapt"], "denoisers": ["posterior-mean"]}
    estimate = Estimate(p.model_copy(update={"sweep": p.sweep.model_copy(update=sweep)}))
    _, plain, denoised = estimate.tuned
    assert estimate.length(plain) - estimate.length(denoised) == pytest.approx(5 * 0.3)
    assert estimate.weights(denoised) - estimate.weights(plain) == 3 * 4 * VOCABULARY * H


def test_the_work_of_an_experiment_is_the_sum_of_its_stages(workspace: Path) -> None:
    p = experiment(one=FULL)
    sweep = {"channels": ["rapt"], "channel_inversions": ["bayes"], "invert": ["movies"]}
    channel = {"frequent": 2, "sampled": 3, "draws": 7, "by_frequency": 11}
    p = p.model_copy(
        update={
            "sweep": p.sweep.model_copy(update=sweep),
            "channel": p.channel.model_copy(update=channel),
        }
    )
    estimate = Estimate(p)
    work = estimate.work()
    # 540 words, which a gate makes again, and (2 + 3) x 7 + 11 draws, against the vocabulary.
    assert work.search == pytest.approx((2 * 540 + 46) * 2 * CANDIDATES * VOCABULARY * H)
    assert work.tuning == sum(estimate.flops(cell) for cell in estimate.tuned)


@pytest.mark.parametrize("path", ["params.yaml", "tests/every_section.yaml"])
def test_every_stage_of_dvc_yaml_is_counted(path: str) -> None:
    p = params.load(ROOT / path)
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].values()

    def count(stage: Any) -> int:
        lists = [name[2:-1].split(".")[-1] for name in stage.get("matrix", {}).values()]
        many = math.prod(len(getattr(p.sweep, name)) for name in lists)
        return len(p.studies) if "foreach" in stage else many

    assert Estimate(p).stages() == sum(map(count, stages))


def test_vectors_take_disk_and_one_position_a_word(workspace: Path) -> None:
    p = experiment(one=FULL)
    words = Estimate(p).releases()
    sweep = p.sweep.model_copy(update={"methods": ["token-representation"]})
    estimate = Estimate(p.model_copy(update={"sweep": sweep}))
    assert estimate.length(estimate.tuned[1]) == 5 + 2
    # 3 seeds x 20 rows x 5 words; of the method rapt 4 plain ones as well; the clean release.
    assert estimate.releases() == 300 * (4 + 1.5 * H) + 300 * 4
    assert words == 540 * 4 + 300 * 4
    Path("model/config.json").unlink()
    assert math.isnan(Estimate(p.model_copy(update={"sweep": sweep})).releases())


def test_texts_are_cut_and_rows_are_limited(workspace: Path) -> None:
    p = experiment(one=FULL)
    rows = p.tasks["movies"].rows.model_copy(update={"train": 6})
    task = p.tasks["movies"].model_copy(update={"rows": rows})
    p = p.model_copy(update={"tasks": {"movies": task}})
    assert Estimate(p).texts["movies"].rows == 6
    for split in ("train", "test"):
        rows = "".join(f"{split}{i} {'word ' * 1000},0\n" for i in range(10))
        Path(f"{split}.csv").write_text(f"text,label\n{rows}")
    estimate = Estimate(p)
    assert estimate.length(estimate.tuned[1]) == 64 + 1.3 * 4 + 2


def test_what_is_not_here_is_unknown_until_it_is_given(workspace: Path) -> None:
    Path("train.csv").unlink()
    Path("model/config.json").unlink()
    p = experiment(one=FULL)
    unknown = Estimate(p)
    _, cell = unknown.tuned
    costs = (unknown.flops(cell), unknown.weights(cell), unknown.words())
    assert all(map(math.isnan, (*costs, unknown.tables(), unknown.checkpoints())))
    assert (unknown.guessed, unknown.missing) == (["movies"], ["minilm"])
    given = Estimate(p, rows={"": 100}, parameters={"minilm": 1e6})
    # As long as train.max_tokens allows.
    tokens = 3 * 100 * 4 * (64 + 1.3 * 4 + 2)
    assert given.texts["movies"].test == 0
    assert given.flops(cell) == pytest.approx(tokens * 6e6)
    assert given.weights(cell) == 3 * 4e6


def test_a_bilstm_costs_what_torch_makes(workspace: Path) -> None:
    """On the embeddings of the small model; also if the model is not here."""
    encoder = {"type": "bilstm", "hidden": 5, "layers": 2, "dropout": 0.0}
    p = experiment(encoder, one=FULL)
    lstm = sum(w.numel() for w in LSTM(H, 5, 2, bidirectional=True).parameters())
    _, cell = Estimate(p).tuned
    assert Estimate(p).flops(cell) == pytest.approx((120 * 6 + 30 * 2) * LENGTH * lstm)
    assert Estimate(p).weights(cell) == 3 * 4 * (lstm + VOCABULARY * H)
    assert Estimate(p).checkpoints() == 3 * 3 * 4 * lstm  # its embeddings are frozen
    Path("model/config.json").unlink()
    assert math.isnan(Estimate(p).weights(cell))
    # Then what is given is what learns.
    given = Estimate(p, parameters={"minilm": lstm})
    assert given.flops(cell) == pytest.approx((120 * 6 + 30 * 2) * LENGTH * lstm)


def test_of_an_encoder_decoder_the_encoder_counts(workspace: Path) -> None:
    config = hf.T5Config(d_model=H, d_kv=4, d_ff=H, num_layers=1, num_heads=2, vocab_size=50)
    config.save_pretrained("model")
    encoder = hf.AutoModelForTextEncoding.from_config(config)
    assert size_of("model", Full()).parameters == sum(w.numel() for w in encoder.parameters())


def test_t5_and_gpt2_name_their_shape_otherwise(workspace: Path) -> None:
    for config in hf.T5Config(d_model=H, vocab_size=50), hf.GPT2Config(n_embd=H, vocab_size=50):
        config.save_pretrained("model")
        assert shape_of("model") == (H, 50)


def test_of_a_model_that_sees_images_the_one_inside_counts(workspace: Path) -> None:
    text = {"hidden_size": H, "intermediate_size": H, "num_hidden_layers": 2, "vocab_size": 50}
    config = hf.Gemma3Config(text_config=text | {"num_attention_heads": 1, "head_dim": H})
    config.save_pretrained("model")
    assert shape_of("model") == (H, 50)
    inside = hf.Gemma3TextModel(config.get_text_config())
    assert size_of("model", Full()).parameters == sum(w.numel() for w in inside.parameters())


def test_the_packaged_model_is_found() -> None:
    model = params.load(ROOT / "params.yaml").backbones["minilm"].model
    assert size_of(model, Full()).parameters == 22_713_216  # as all-MiniLM-L6-v2 has
    assert shape_of(model) == (384, 30_522)


@pytest.mark.parametrize("tuner", [Full(), Lora(), LinearProbe()])
def test_a_token_costs_what_torch_counts(tuner: Tuner) -> None:
    """One token, so that it attends to nothing else; vectors that are added are not counted."""
    model = adapt(hf.BertModel(hf.BertConfig(num_hidden_layers=2)), tuner)
    token = torch.zeros((1, 1), dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        states = model(input_ids=token)
        if not isinstance(tuner, LinearProbe):
            (states.last_hidden_state.sum() + states.pooler_output.sum()).backward()
    # The first layer needs no gradient of its input.
    assert counted(model).flops_per_token == pytest.approx(counter.get_total_flops(), rel=0.1)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # as their model cards say
        ("google-bert/bert-base-uncased", 109_482_240),
        ("google-t5/t5-base", 109_628_544),
        ("Qwen/Qwen2.5-3B", 3_085_938_688),
        ("meta-llama/Meta-Llama-3-8B", 7_504_924_672),
        ("mistralai/Mistral-7B-v0.1", 7_110_660_096),
    ],
)
def test_a_model_on_the_hub_has_the_size_of_its_weights(
    workspace: Path, name: str, parameters: int
) -> None:
    assert size_of(f"{name}@a-revision", Full()).parameters == parameters


def test_a_model_is_counted_once(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = size_of("model", Lora())
    monkeypatch.setattr("rapt.costs._counted_on_meta", None)
    assert size_of("model", Lora()) == first
