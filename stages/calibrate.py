"""Shares of words replaced by η, and a table's distances: `python -m stages.calibrate minilm`."""

from typing import Any

import numpy as np

from rapt import params, paths
from rapt.privacy.channel import PER
from rapt.privacy.config import Calibrate
from rapt.privacy.geometry import neighbour_distances, pairwise
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.privacy.replacement import TextCurve, text_curve
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import run


def main(embedding: str) -> None:
    """Measure the share of EMBEDDING's words that each η replaces, and their distances."""
    p = params.load()
    how, table = p.calibrate, EmbeddingTable(paths.table(embedding))
    curves = {
        mechanism.name: text_curve(
            table, mechanism, categories, words=how.words, draws=how.draws, seed=p.seed
        )
        for mechanism, categories in ((T2T(), None), (PCT2T(), how.categories))
    }
    files.write_json(
        paths.calibration(embedding),
        {
            "embedding": embedding,
            "words": how.words,
            "draws": how.draws,
            "curves": {name: points(curve, how) for name, curve in curves.items()},
            "targets": {name: targets(curve, how) for name, curve in curves.items()},
        },
    )
    neighbours = neighbour_distances(table, how.distances, p.seed)
    files.write_json(
        paths.geometry(embedding),
        {
            "embedding": embedding,
            "words": len(table.words),
            "dimension": table.dimension,
            "sampled": min(how.distances, len(table.words)),
            "neighbours": [{"k": k, "mean": mean} for k, mean in neighbours.items()],
            "categories": pairwise(table, how.distances, p.seed),
        },
    )


def points(curve: TextCurve, how: Calibrate) -> list[dict[str, Any]]:
    """Return, for each η, the shares of words replaced, with intervals, and the median N_w."""
    rows = []
    for eta in how.etas:
        found = curve.replaced(float(eta))
        shares = {
            "replaced": found.known,
            "protected": found.protected,
            "all_words": found.all_words,
        }
        rows.append(
            {"eta": eta}
            | {
                f"{name}{end}": getattr(share, of) if share else None
                for name, share in shares.items()
                for end, of in (("", "value"), ("_low", "low"), ("_high", "high"))
            }
            | {"n_w": PER * (1 - curve.median(float(eta)))}
        )
    return rows


def targets(curve: TextCurve, how: Calibrate) -> list[dict[str, float | None]]:
    """Return the η of each target share, with its interval; null where no η is too large."""
    rows = []
    for share in how.replaced:
        found = curve.eta_for(share)
        etas = {"eta": found.eta, "eta_low": found.low, "eta_high": found.high}
        finite = {name: eta if np.isfinite(eta) else None for name, eta in etas.items()}
        rows.append({"replaced": share, **finite})
    return rows


if __name__ == "__main__":
    run(main)
