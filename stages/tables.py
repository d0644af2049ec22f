"""Make an embedding model's candidate table: `python -m stages.tables minilm`."""

from rapt import models, params, paths
from rapt.text.embeddings import build_table
from rapt.text.tagging import Tagger
from rapt.utils import files
from stages import run


def main(embedding: str) -> None:
    """Write the words, categories and vectors of EMBEDDING's public vocabulary."""
    p = params.load()
    model = p.embeddings[embedding]
    with files.atomic(paths.table(embedding)) as folder:
        build_table(
            models.folder(model.model, model.sha256, static=True),
            Tagger(p.tagger),
            model.extra_pos or {},
            folder,
            p.language,
        )


if __name__ == "__main__":
    run(main)
