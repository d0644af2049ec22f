"""Benchmarks of language models that write: against plain Transformers and PEFT, one thread.

A random Llama of SmolLM2's kind, sources of two to forty words, LoRA. On a GPU bfloat16.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, TaskType, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainingArguments,
)
from transformers import Trainer as PlainTrainer

from benchmarks.measure import Figure, figure, interleaved, ratio
from rapt.kinds.generate import Generate
from rapt.privacy.streams import stream
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import Decoding, Run, TrainConfig
from rapt.tuning.inputs import Split
from rapt.tuning.model import Writer, adapt, load_backbone, placed
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Lora
from rapt.tuning.writing import tokenized, write
from rapt.utils.device import device

SOURCES, BATCH, ROUNDS = 48, 16, 3
LORA = Lora(r=16, alpha=32, dropout=0.0, learning_rate=1e-3)
DECODING = Decoding(beams=5, max_new_tokens=8)
GPU = device().type == "cuda"


def run(tables: Path) -> list[Figure]:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_model(folder / "backbone")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        found = [*_writing(folder), *_training(folder)]
        torch.set_num_threads(threads)
        return found


def _writing(folder: Path) -> list[Figure]:
    backbone, tokenizer = load_backbone(folder / "backbone", frozen=_precision(), writes=True)
    writer = Writer(backbone, _precision()).eval()
    placed(writer)
    split = _split(tokenizer, texts=False)
    taken = interleaved(
        {
            "plain": lambda: _generated(writer, split, tokenizer),
            "ours": lambda: write(writer, split, tokenizer, DECODING, BATCH),
            "single": lambda: write(writer, split, tokenizer, DECODING, 1),
        },
        ROUNDS,
    )
    each = float(np.median(taken["ours"]))
    return [
        figure(
            "generate of Transformers / writing, as many texts at once, one thread",
            ratio(taken["plain"], taken["ours"]),
            "times",
            least=1.0,
        ),
        figure(
            f"one text at a time / {BATCH} at once, one thread",
            ratio(taken["single"], taken["ours"]),
            "times",
            least=1.2,
        ),
        figure("writing with five beams, one thread", SOURCES / each, "texts/s"),
    ]


def _generated(writer: Writer, split: Split, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write by Transformers alone, in batches of the texts as they come."""
    how = GenerationConfig(
        num_beams=DECODING.beams,
        max_new_tokens=DECODING.max_new_tokens,
        do_sample=False,
        use_cache=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    tokens = list(split.tokens)
    for start in range(0, SOURCES, BATCH):
        prompts = {"input_ids": tokens[start : start + BATCH]}
        batch = tokenizer.pad(prompts, padding_side="left", return_tensors="pt").to(device())
        with (
            torch.inference_mode(),
            torch.autocast(device().type, torch.bfloat16, enabled=_precision() == "bf16"),
        ):
            written: Any = writer.backbone
            tokenizer.batch_decode(written.generate(**batch, generation_config=how))


def _training(folder: Path) -> list[Figure]:
    tokenizer = load_backbone(folder / "backbone", writes=True)[1]
    split = _split(tokenizer, texts=True)
    losses: dict[str, float] = {}

    def ours() -> None:
        torch.manual_seed(0)
        given = told(folder)
        backbone, _ = load_backbone(given.backbone, None, given.frozen, writes=True)
        model = Writer(adapt(backbone, LORA), given.train.precision)
        trainer = Trainer(given, model, tokenizer.pad_token_id)
        checkpoint = Checkpoint(given, device().type)
        losses["ours"] = trainer.fit(split, checkpoint)["task_loss"][-1]
        checkpoint.path.unlink()

    def plain() -> None:
        losses["plain"] = _plain(folder, split)

    taken = interleaved({"plain": plain, "ours": ours}, ROUNDS)
    tokens = sum(split.lengths) * told(folder).train.epochs
    rate = tokens / float(np.median(taken["ours"]))
    return [
        figure(
            "training to write / Transformers Trainer, one thread",
            ratio(taken["plain"], taken["ours"]),
            "times",
            least=1.2,
        ),
        figure("training to write, one thread", rate, "tokens/s"),
        figure("its loss in the last epoch", losses["ours"], "nats"),
        figure("loss of Transformers Trainer there", losses["plain"], "nats"),
    ]


def _plain(folder: Path, split: Split) -> float:
    """Train by Transformers' Trainer, which computes the logits of every token."""
    torch.manual_seed(0)
    given = told(folder)
    backbone, tokenizer = load_backbone(given.backbone, None, given.frozen, writes=True)
    config = LoraConfig(
        TaskType.CAUSAL_LM, r=LORA.r, lora_alpha=LORA.alpha, lora_dropout=LORA.dropout
    )
    rows = [
        {"input_ids": tokens, "labels": _alone(tokens, text)}
        for tokens, text in zip(split.tokens, split.text, strict=True)
    ]

    def collated(given: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        fills = {"input_ids": tokenizer.pad_token_id, "labels": -100, "attention_mask": 0}
        rows = [one | {"attention_mask": [1] * len(one["labels"])} for one in given]
        return {
            name: pad_sequence([torch.tensor(row[name]) for row in rows], True, padding_value=fill)
            for name, fill in fills.items()
        }

    with TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out,
            per_device_train_batch_size=BATCH,
            num_train_epochs=given.train.epochs,
            learning_rate=LORA.learning_rate,
            warmup_steps=given.train.warmup,
            max_grad_norm=0.0,
            use_cpu=not GPU,
            bf16=given.train.precision == "bf16",
            report_to=[],
            save_strategy="no",
            logging_strategy="epoch",
            disable_tqdm=True,
            log_level="error",
            remove_unused_columns=False,
        )
        trainer = PlainTrainer(
            get_peft_model(backbone, config), arguments, train_dataset=rows, data_collator=collated
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return float([line["loss"] for line in trainer.state.log_history if "loss" in line][-1])


def _alone(tokens: list[int], text: list[bool]) -> list[int]:
    """Return the labels of a text, none of its source."""
    return [token if own else -100 for token, own in zip(tokens, text, strict=True)]


def _precision() -> Any:
    return "bf16" if GPU else "float32"


def _split(tokenizer: PreTrainedTokenizerBase, *, texts: bool) -> Split:
    """Sources of random words, and texts that repeat the first ten of them."""
    rng = stream(0, "benchmark", "writing")
    sizes = rng.integers(2, 41, SOURCES)
    words = [[f"w{i}" for i in rng.integers(2000, size=size)] for size in sizes]
    written = [own[:10] if texts else [] for own in words]
    pairs = list(zip(words, written, strict=True))
    columns: dict[str, list[Any]] = {
        "words": [[*source, *text] for source, text in pairs],
        "segment": [[0] * len(source) + [1] * len(text) for source, text in pairs],
        "space_after": [[True] * len([*source, *text]) for source, text in pairs],
    }
    return tokenized(columns, tokenizer, 64)


def write_model(folder: Path) -> None:
    """Write a random language model with a vocabulary as large as SmolLM2's."""
    words = [f"w{i}" for i in range(49_000)]
    special = ["<pad>", "<end>", "<unknown>"]
    made = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate([*special, *words])}, unk_token="<unknown>")
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(special) + len(words),
        hidden_size=288,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=9,
        num_key_value_heads=3,
        pad_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(shape).save_pretrained(folder)
    # What a checkpoint's name is a hash of: a release, which is not read here.
    (folder.parent / "seed-0").mkdir()
    (folder.parent / "statement.json").write_text("{}")


def told(folder: Path) -> Run:
    return Run(
        cell="benchmark",
        release=folder,
        k=0,
        seed=0,
        backbone=folder / "backbone",
        backbone_name="random",
        tuner=LORA,
        train=TrainConfig(epochs=2, batch_size=BATCH, max_tokens=64, precision=_precision()),
        adapter=folder / "adapter",
        kind=Generate(),
    )
