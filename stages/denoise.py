"""Tune on denoised words: `python -m stages.denoise CELL movies minilm lora t2t 75 mean minilm`."""

import numpy as np

from rapt import params, paths
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior
from rapt.privacy.privatizer import of_words
from rapt.tuning.config import Denoising
from rapt.utils import files
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
    p = params.load()
    release = paths.release(task, f"{method}-{eta}")
    of, how = p.methods[method], p.denoisers[denoiser]
    privatizer = of_words(seeded.privatizer(embedding, of.mechanism, of.categories, eta))
    table = privatizer.table
    channel = Channel.load(paths.channel(embedding, f"{method}-{eta}"), len(table.words))
    groups = privatizer.groups_of_rows(np.arange(len(table.words)))

    def reading(k: int) -> Denoising:
        """How seed k reads words: all from what is public and from the seed's own release."""
        texts = files.read_parquet(paths.seed(release, k) / "train.parquet", ["words"])["words"]
        counts = table.counts(texts.to_pylist()) if how.prior == "release" else None
        posterior = Posterior.of(channel, table.frequency, groups, counts)
        rows = posterior.rows
        return Denoising(
            how.type, [table.words[row] for row in rows], table.words, posterior.matrix[rows]
        )

    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    factors["denoiser"] = denoiser
    tune("denoise", cell, factors, release, [reading(k) for k in range(p.seeds)])


if __name__ == "__main__":
    run(main)
