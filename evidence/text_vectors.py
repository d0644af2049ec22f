"""Text that an attacker reads from one vector: `python -m evidence.text_vectors`.

Texts are released by the mechanism `sequence-representation`, as the noisy mean of their words'
vectors. An attacker's decoder, trained on public texts, writes the victims' texts from them. Run it
where `dvc repro tag` of the preset `attacks-context` and the table have been made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.run import machine
from rapt import params, paths
from rapt.attacks.base import Texts, Vectors
from rapt.attacks.scores import Scores, intervals
from rapt.attacks.text_decoder import TextDecoder, recovered
from rapt.privacy.mechanisms.vectors import SequenceRepresentation
from rapt.text.table import EmbeddingTable
from rapt.utils import files

TASK, PUBLIC = "movies", "reviews"
ETAS = (1600.0, 6400.0, np.inf)
COPIES = 2  # of the texts of the attacker, each with its own noise


def main() -> None:
    """Compute the share of recovered words at each η."""
    torch.set_num_threads(1)
    p = params.load()
    table = EmbeddingTable(paths.table(p.embedding))
    rows = {
        name: files.read_parquet(paths.tagged(task) / f"{split}.parquet")
        for name, task, split in (("test", TASK, "test"), ("public", PUBLIC, "train"))
    }
    words: dict[str, Texts] = {
        name: [[table.form(word) for word in text] for text in each["words"].to_pylist()]
        for name, each in rows.items()
    }
    theirs = {tuple(text) for text in words["test"]}
    public = [text for text in words["public"] if tuple(text) not in theirs]
    found: dict[str, Any] = {"machine": machine(), "attacker's texts": len(public), "eta": {}}
    for eta in ETAS:
        rng = np.random.default_rng(p.seed)
        test = released(table, words["test"], eta, rng)
        own = np.concatenate([released(table, public, eta, rng) for _ in range(COPIES)])
        decoder = TextDecoder.fitted(own, public * COPIES, p.seed, epochs=2)
        written = decoder.texts(test)
        read = {
            name: share(guesses, words["test"])
            for name, guesses in (
                ("recovered", written),
                # A text that the decoder writes for another victim: what no vector tells.
                ("another's text", [*written[1:], written[0]]),
            )
        }
        found["eta"][f"{eta:g}"] = read
        files.write_json("evidence/text_vectors.json", found)


def released(table: EmbeddingTable, texts: Texts, eta: float, rng: np.random.Generator) -> Vectors:
    """The noisy mean vector of each text, float32 (n, d)."""
    how = SequenceRepresentation()
    vectors = [table.embed(text) for text in texts]
    found = [how.represent(of, how.draw(rng, 1, of.shape[1]), eta) for of in vectors]
    return np.concatenate(found).astype(np.float32)


def share(guesses: Texts, texts: Texts) -> dict[str, float]:
    """The share of all words that are in the guesses, with its interval over texts."""
    counts = recovered(guesses, texts)
    low, high = intervals([Scores({"words": counts}, {})])["words"]
    return {"mean": float(counts[0].sum() / counts[1].sum()), "low": low, "high": high}


if __name__ == "__main__":
    main()
