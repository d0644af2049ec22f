"""The training loop against a plain Transformers Trainer with PEFT, and a cell's seeds in one run.

A random backbone of MiniLM's shape, sentences as long as SST-2's, LoRA, one thread, float32. Both
loops are timed from tokenized texts to trained weights.
"""

from __future__ import annotations

import json
import time
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from peft import LoraConfig, TaskType, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    TrainingArguments,
)
from transformers import Trainer as PlainTrainer

from benchmarks.measure import Figure, figure, interleaved, ratio
from rapt import files
from rapt.privacy.streams import stream
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Loop, Lora, Run
from rapt.tuning.contract import Statement
from rapt.tuning.inputs import Split, read_split
from rapt.tuning.model import adapt, load_backbone
from rapt.tuning.seeds import train_all
from rapt.tuning.train import Trainer

TEXTS, BATCH, ROUNDS, SEEDS = 512, 16, 3, 5
# Words of SST-2's sentences: 9.4 in the mean of the training split, of the validation split 19.5.
LENGTH, SPREAD = 17, 0.5
LORA = Lora(r=16, alpha=32, dropout=0.05, learning_rate=1e-3)


def run(tables: Path) -> list[Figure]:
    with TemporaryDirectory() as scratch:
        told = _told(Path(scratch))
        return [_loop(told), _seeds(told)]


def _loop(told: Run) -> Figure:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tokenizer = load_backbone(told.backbone)[1]
    split = read_split(told.release / "seed-0/train.parquet", tokenizer, told.loop.max_tokens)
    taken = interleaved(
        {"plain": lambda: _plain(told, split, tokenizer), "ours": lambda: _ours(told, split)},
        ROUNDS,
    )
    torch.set_num_threads(threads)
    each = float(np.median(taken["ours"]))
    print(f"{TEXTS / each:.0f} texts/s")
    return figure(
        "training loop / Transformers Trainer, one thread",
        ratio(taken["plain"], taken["ours"]),
        "times",
        least=1.3,
    )


def _seeds(told: Run) -> Figure:
    """What a cell of several seeds costs against as many cells of one."""
    runs = [replace(told, k=k, adapter=told.adapter / str(k)) for k in range(SEEDS)]
    start = time.perf_counter()
    train_all(runs)
    together = time.perf_counter() - start
    start = time.perf_counter()
    for each in runs:
        train_all([each])
    apart = time.perf_counter() - start
    return figure(f"{SEEDS} runs of one seed / a cell of {SEEDS}", apart / together, "times")


def _ours(told: Run, split: Split) -> None:
    backbone, tokenizer = load_backbone(told.backbone)
    trainer = Trainer(told, adapt(backbone, LORA), 2, tokenizer.pad_token_id)
    checkpoint = Checkpoint(told, "cpu")
    trainer.fit(split, checkpoint)
    checkpoint.remove()


def _plain(told: Run, split: Split, tokenizer: PreTrainedTokenizerFast) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(told.backbone, num_labels=2)
    config = LoraConfig(
        TaskType.SEQ_CLS, r=LORA.r, lora_alpha=LORA.alpha, lora_dropout=LORA.dropout
    )
    rows: list[dict[str, Any]] = [
        {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": label}
        for tokens, label in zip(split.tokens, split.labels, strict=True)
    ]
    with TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out,
            per_device_train_batch_size=BATCH,
            num_train_epochs=told.loop.epochs,
            learning_rate=LORA.learning_rate,
            warmup_steps=told.loop.warmup,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            log_level="error",
        )
        trainer = PlainTrainer(
            get_peft_model(model, config),
            arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.train()


def _told(folder: Path) -> Run:
    """A run on a random backbone and a random release (docs/data.md)."""
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
    shape = BertConfig(
        vocab_size=len(special) + len(words),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    torch.manual_seed(0)
    BertModel(shape, add_pooling_layer=False).save_pretrained(folder / "backbone")
    rng = stream(0, "benchmark", "training")
    lengths = np.clip(rng.lognormal(np.log(LENGTH), SPREAD, TEXTS), 2, 60).astype(int)
    texts = [list(rng.choice(words, length)) for length in lengths]
    release = folder / "release"
    table = {
        "example_id": [f"train-{i:06d}" for i in range(TEXTS)],
        "words": texts,
        "segment": [[0] * len(text) for text in texts],
        "label": rng.integers(2, size=TEXTS),
    }
    for k in range(SEEDS):
        for split in ("train", "test"):
            files.write_parquet(release / f"seed-{k}" / f"{split}.parquet", pa.table(table))
    facts = dict.fromkeys((field.name for field in fields(Statement)), "benchmark")
    statement = {**facts, "labels": ["no", "yes"], "vocabulary": None, "plain_tokens": None}
    (release / "statement.json").write_text(json.dumps(statement))
    return Run(
        cell="benchmark",
        release=release,
        k=0,
        seed=0,
        backbone=folder / "backbone",
        backbone_name="random",
        backbone_sha256=None,
        tuner=LORA,
        reconstruction=None,
        loop=Loop(
            epochs=1,
            batch_size=BATCH,
            max_tokens=64,
            warmup=0.1,
            weight_decay=0.0,
            precision="float32",
        ),
        adapter=folder / "adapters",
    )
