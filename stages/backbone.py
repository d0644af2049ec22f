"""Locate a backbone: `python -m stages.backbone minilm`."""

from rapt import models, params, paths
from rapt.utils import files
from stages import run


def main(name: str) -> None:
    """Write where backbone NAME comes from, and the digests of its weights; its files stay there.

    What tunes or reads it depends on this, and not on how it came about.
    """
    backbone = params.load().backbones[name]
    folder = models.folder(backbone.model, backbone.sha256)
    with files.atomic(paths.backbone(name)) as out:
        out.mkdir()
        files.write_json(out / models.SOURCE, models.source(backbone.model, folder))


if __name__ == "__main__":
    run(main)
