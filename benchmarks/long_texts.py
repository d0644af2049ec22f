"""Tuning on texts of 500 tokens, as MMLU's questions: a batch takes no more memory than its part.

A random Llama, one step of LoRA on the letter of a choice; each batch in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks import writing
from benchmarks.measure import Figure, figure, memory
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.inputs import Split
from rapt.tuning.model import Chooser, adapt, load_backbone
from rapt.tuning.trainer import Trainer
from rapt.utils.device import device

LENGTH, TEXTS = 500, (4, 16)


def run(_: Path) -> list[Figure]:
    few, many = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.long_texts", str(texts)],
                capture_output=True,
                check=True,
            ).stdout
        )
        for texts in TEXTS
    )
    tokens = f"texts of {LENGTH} tokens"
    return [
        figure(f"peak memory of a step on {TEXTS[0]} {tokens}", few, "MiB"),
        figure(f"peak memory of a step on {TEXTS[1]} {tokens}", many, "MiB"),
        figure("the second / the first", many / few, "times", most=1.2),
    ]


def _peak(texts: int) -> float:
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        writing.write_model(folder / "backbone")
        told = writing.told(folder)
        update = {"epochs": 1, "batch_size": texts, "max_tokens": LENGTH}
        told = replace(told, train=told.train.model_copy(update=update))
        backbone, tokenizer = load_backbone(told.backbone, None, told.frozen, writes=True)
        model = Chooser(adapt(backbone, writing.LORA), [10, 11, 12, 13], told.train.precision)
        trainer = Trainer(told, model, tokenizer.pad_token_id)
        trainer.fit(_split(texts), Checkpoint(told, device().type))
    return memory("VmHWM")


def _split(texts: int) -> Split:
    return Split.of_lists([[5] * LENGTH] * texts, text=[[True] * LENGTH] * texts)


if __name__ == "__main__":
    print(_peak(int(sys.argv[1])))
