"""Tune on denoised words: `python -m stages.denoise CELL movies minilm lora t2t 75 mean minilm`."""

from pathlib import Path

import numpy as np

from rapt import params
from rapt.privacy import experiment
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior
from rapt.tuning.config import Originals
from stages import run
from stages.tuning import tune


def main(
    cell: str,
    task: str,
    backbone: str,
    tuner: str,
    method: str,
    eta: str,
    denoiser: str,
    embedding: str,
) -> None:
    """Train every seed of CELL on its release, its words as DENOISER reads them."""
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    tune(
        "denoise",
        cell,
        factors | {"denoiser": denoiser},
        f"data/private/{task}/{method}-{eta}",
        _originals(embedding, method, eta),
    )


def _originals(embedding: str, method: str, eta: str) -> Originals:
    """What the words that METHOD releases at ETA may have been: public, as all it is made of."""
    how = params.load().methods[method]
    privatizer = experiment.privatizer(embedding, how.mechanism, how.categories, eta)
    table = privatizer.table
    channel = Channel.load(Path(f"models/channels/{embedding}/{method}-{eta}"), len(table.words))
    groups = privatizer.groups_of_rows(np.arange(len(table.words)))
    posterior = Posterior.of(channel, table.frequency, groups)
    rows = posterior.rows
    return Originals([table.words[row] for row in rows], table.words, posterior.matrix[rows])


if __name__ == "__main__":
    run(main)
