"""Measure an embedding table: `python -m stages.geometry minilm`."""

from rapt import files, params
from rapt.privacy.geometry import neighbour_distances, pairwise
from rapt.text.table import EmbeddingTable
from stages import run


def main(embedding: str) -> None:
    """Show how far EMBEDDING's words lie from each other."""
    p = params.load()
    table, words = EmbeddingTable(f"models/tables/{embedding}"), p.geometry.words
    neighbours = neighbour_distances(table, words, p.seed)
    files.write_json(
        f"reports/statistics/geometry/{embedding}.json",
        {
            "embedding": embedding,
            "words": len(table.words),
            "dimension": table.dimension,
            "sampled": min(words, len(table.words)),
            "neighbours": [{"k": k, "mean": mean} for k, mean in neighbours.items()],
            "categories": pairwise(table, words, p.seed),
        },
    )


if __name__ == "__main__":
    run(main)
