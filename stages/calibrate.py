"""Share of words replaced by η, and a table's distances: `python -m stages.calibrate minilm`."""

from typing import Any

import numpy as np

from rapt import params, paths
from rapt.privacy import calibration
from rapt.privacy.calibration import Curve
from rapt.privacy.channel import PER
from rapt.privacy.config import Calibrate
from rapt.privacy.geometry import neighbour_distances, pairwise
from rapt.privacy.mechanisms import PCT2T, T2T
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import run


def main(embedding: str) -> None:
    """Measure the share of EMBEDDING's words that each η replaces, and their distances."""
    p = params.load()
    how, table = p.calibrate, EmbeddingTable(paths.table(embedding))
    curves = {
        mechanism.name: calibration.curve(
            table,
            mechanism,
            categories,
            words=how.words,
            draws=how.draws,
            seed=p.seed,
            by_frequency=True,
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


def points(curve: Curve, how: Calibrate) -> list[dict[str, Any]]:
    """Return, for each η, the share of words replaced, with its interval, and the median N_w."""
    return [
        {
            "eta": eta,
            "replaced": (share := curve.replaced(float(eta))).value,
            "replaced_low": share.low,
            "replaced_high": share.high,
            "n_w": float(np.median(PER * (1 - curve.shares(float(eta))))),
        }
        for eta in how.etas
    ]


def targets(curve: Curve, how: Calibrate) -> list[dict[str, float | None]]:
    """Return the η of each target share, with its interval; null where no η is too large."""
    rows = []
    for share in how.replaced:
        found = curve.eta_for_replaced(share)
        etas = {"eta": found.eta, "eta_low": found.low, "eta_high": found.high}
        finite = {name: eta if np.isfinite(eta) else None for name, eta in etas.items()}
        rows.append({"replaced": share, **finite})
    return rows


if __name__ == "__main__":
    run(main)
