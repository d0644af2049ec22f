"""Find the η of each level, as replaced-50, for each method: `python -m stages.levels minilm`."""

from rapt import params, paths
from rapt.attacks.linked import linked
from rapt.measures.level_search import at_levels
from rapt.param_types import level
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from stages import run


def main(embedding: str) -> None:
    """Write the η of the levels in the sweep and the studies on EMBEDDING's table."""
    p = params.load()
    studies = [study for study in p.studies.values() if study.embedding == embedding]
    etas = dict.fromkeys((*p.sweep.etas, *(study.eta for study in studies)))
    names = dict.fromkeys(
        (*p.sweep.methods, *p.sweep.channels, *(study.method for study in studies))
    )
    methods = {name: (p.methods[name].mechanism, p.methods[name].categories) for name in names}
    levels = [eta for eta in etas if level(eta) is not None]
    table = EmbeddingTable(paths.table(embedding))
    files.write_json(
        paths.levels(embedding), at_levels(table, methods, levels, p.calibrate, p.seed, linked)
    )


if __name__ == "__main__":
    run(main)
