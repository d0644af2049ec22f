"""Shares of words replaced by η, and a table's distances: `python -m stages.calibrate minilm`."""

from rapt import params, paths
from rapt.measures.geometry import neighbour_distances, pairwise
from rapt.measures.replacement import text_curve
from rapt.privacy.mechanisms import PCT2T, T2T
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
            "curves": {name: curve.points(how.etas) for name, curve in curves.items()},
            "targets": {name: curve.targets(how.replaced) for name, curve in curves.items()},
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


if __name__ == "__main__":
    run(main)
