"""Denoising in context by a language model: `python -m evidence.in_context pct2t 73 FOLDER`.

posterior-mean reads a released word y as D(y) = Σ_w P(w|y)·E(w), regardless of context. Here a
language model's prior is mixed with the unigram prior: at position i of a text

    q_i(w) ∝ P(w|y_i)·(1 − λ + λ·P(w | the words before)/π(w))

and D_i = Σ_w q_i(w)·E(w), for several λ; λ = 0 is posterior-mean. The words before are read as
their likeliest originals. Every word takes one position, even without a posterior. The model sees
only the release, so this is post-processing. Run it where the release, its channel and its table
are.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from benchmarks.run import machine
from rapt import params
from rapt.attacks.language_model import WordPredictor
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior
from rapt.text.table import EmbeddingTable
from rapt.tuning.inputs import VECTORS
from rapt.tuning.train import train_seed
from rapt.utils import files
from rapt.utils.process import die_with_parent, workers
from stages.tuning import run_of

FACTORS = {"task": "sst2", "backbone": "minilm", "tuner": "lora"}
WEIGHTS = (0.0, 0.2, 0.5)  # λ
Vectors = NDArray[np.float32]
Predictor = Callable[[Sequence[str]], Iterable[NDArray[np.float64]]]


def main(
    method: Annotated[str, typer.Argument(help="Whose release is denoised.")],
    eta: Annotated[str, typer.Argument(help="Of that release.")],
    model: Annotated[Path, typer.Argument(help="A language model with its head.")],
    seeds: Annotated[int, typer.Option(help="The first of params.yaml's.")] = 5,
) -> None:
    """Tune on METHOD's release at ETA for every λ, and write each seed's accuracy."""
    with ProcessPoolExecutor(workers(seeds), get_context("spawn"), die_with_parent) as pool:
        found = list(pool.map(partial(_accuracies, method, eta, model), range(seeds)))
    result = {
        "machine": machine(),
        "model": model.name,
        "method": method,
        "eta": eta,
        "accuracy": {str(weight): [seed[str(weight)] for seed in found] for weight in WEIGHTS},
    }
    files.write_json(f"evidence/sst2-minilm/in-context-{method}-{eta}.json", result)


def _accuracies(method: str, eta: str, model: Path, k: int) -> dict[str, float]:
    """Return a seed's test accuracy by λ, cached on disk, as it takes a quarter of an hour."""
    done = Path(f".rapt/in-context/{method}-{eta}-{k}.json")
    if not done.is_file():
        files.write_json(done, _computed(method, eta, model, k))
    kept: dict[str, float] = files.read_json(done)
    return kept


def _computed(method: str, eta: str, model: Path, k: int) -> dict[str, float]:
    torch.set_num_threads(1)
    p, folder = params.load(), Path(f".rapt/in-context/{method}-{eta}-{k}")
    factors = FACTORS | {"method": method, "eta": eta}
    release = Path("data/private", FACTORS["task"], f"{method}-{eta}")
    runs = {
        weight: run_of(
            p, f"in-context-{weight}", factors, folder / f"{weight}", k, folder / "adapter"
        )
        for weight in WEIGHTS
    }
    read = _reader(p, release, k, method, eta, model)
    for split in ("train", "test"):
        table = files.read_parquet(release / f"seed-{k}/{split}.parquet")
        texts = [read(words) for words in table["words"].to_pylist()]
        lengths = np.array([text.shape[1] for text in texts])
        for n, run in enumerate(runs.values()):
            column = files.column_of_vectors(np.concatenate([text[n] for text in texts]), lengths)
            denoised = table.append_column(VECTORS, column)
            files.write_parquet(run.release / f"seed-{k}/{split}.parquet", denoised)
            shutil.copyfile(release / "statement.json", run.release / "statement.json")
    found = {str(weight): train_seed(run).metrics["accuracy"] for weight, run in runs.items()}
    shutil.rmtree(folder)
    return found


def _reader(
    p: params.Params, release: Path, k: int, method: str, eta: str, model: Path
) -> Callable[[Sequence[str]], Vectors]:
    """Return the denoiser of a seed's texts, built from public data and that release alone."""
    how = p.methods[method]
    privatizer = seeded.privatizer(p.embedding, how.mechanism, how.categories, eta)
    table = privatizer.table
    channel = Channel.load(Path(f"models/channels/{p.embedding}/{method}-{eta}"), len(table.words))
    groups = privatizer.groups_of_rows(np.arange(len(table.words)))
    texts = files.read_parquet(release / f"seed-{k}/train.parquet", ["words"])["words"]
    counts = table.counts(texts.to_pylist())
    posterior = Posterior.of(channel, table.frequency, groups, counts)
    predictor = WordPredictor(model, table.words, table.frequency)
    return partial(in_context, posterior, table, predictor)


def in_context(
    posterior: Posterior, table: EmbeddingTable, predictor: Predictor, words: Sequence[str]
) -> Vectors:
    """Compute D_i of a text's n words for every λ, float32 (λ, n, d); E is the table's."""
    rows, matrix = table.rows(words), posterior.matrix
    spans = [slice(*matrix.indptr[row : row + 2]) if row >= 0 else slice(0) for row in rows]
    likeliest = [
        table.words[matrix.indices[span][matrix.data[span].argmax()]]
        if matrix.data[span].size
        else word
        for word, span in zip(words, spans, strict=True)
    ]
    found = np.repeat(table.embed(words)[None], len(WEIGHTS), axis=0)
    for at, (span, expected) in enumerate(zip(spans, predictor(likeliest), strict=True)):
        originals, given = matrix.indices[span], matrix.data[span]
        if not len(originals):  # released as it is
            continue
        odds = expected[originals] / posterior.prior[originals]
        for n, weight in enumerate(WEIGHTS):
            chances = given * (1 - weight + weight * odds)
            found[n, at] = chances / chances.sum() @ table.vectors[originals]
    return found


if __name__ == "__main__":
    typer.run(main)
