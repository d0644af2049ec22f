"""Tune an adapter off the grid: `python -m stages.study reconstruction-mean`."""

from rapt import models, params, paths
from stages import run
from stages.tuning import tune


def main(study: str) -> None:
    """Train every seed of STUDY on its release."""
    p = params.load()
    factors = p.studies[study].model_dump() | {"study": study}
    out = paths.backbone(factors["backbone"])
    if not (out / models.SOURCE).is_file():  # off the sweep, for which there is no stage
        backbone = p.backbones[factors["backbone"]]
        models.note_source(backbone.model, backbone.sha256, out)
    tune("study", study, factors, paths.study_release(study))


if __name__ == "__main__":
    run(main)
