"""Accuracy beside a plain Transformers Trainer's on SST-2: `python -m evidence.trainer`.

`make benchmark` compares both loops on few reviews; this compares them on the experiment's clean
texts. Both tune from the same weights, seed by seed, and are scored on the test split. Run it in
the folder of the release. It writes trainer.json.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.run import machine
from benchmarks.training import LORA, scores
from rapt import params
from rapt.utils import files
from rapt.utils.process import die_with_parent, workers
from stages.tuning import run_of

FACTORS = {"task": "sst2", "backbone": "minilm", "tuner": "lora", "method": "clean", "eta": "inf"}


def main(
    seeds: Annotated[int, typer.Option(help="Of training; the texts are the same.")] = 10,
) -> None:
    """Train and score both loops, and write what each seed reached."""
    start = time.perf_counter()
    run = run_of(params.load(), "trainer", FACTORS, Path("data/private/sst2/clean"), 0, Path())
    assert run.tuner == LORA
    told = [replace(run, seed=k) for k in range(seeds)]
    with ProcessPoolExecutor(workers(seeds), get_context("spawn"), die_with_parent) as pool:
        pairs = list(pool.map(scores, told))
    ours, plain = (list(reached) for reached in zip(*pairs, strict=True))
    result = {
        "machine": machine(),
        "seconds": round(time.perf_counter() - start),
        "accuracy": {"training loop": ours, "Transformers Trainer": plain},
    }
    files.write_json("evidence/sst2-minilm/trainer.json", result)


if __name__ == "__main__":
    typer.run(main)
