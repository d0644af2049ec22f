"""Tune an adapter off the grid: `python -m stages.study reconstruction-mean`."""

from rapt import models, params, paths
from stages import backbone, run
from stages.tuning import tune


def main(study: str) -> None:
    """Train every seed of STUDY on its release."""
    factors = params.load().studies[study].model_dump() | {"study": study}
    if not (paths.backbone(factors["backbone"]) / models.SOURCE).is_file():
        backbone.main(factors["backbone"])  # off the sweep, for which there is no stage
    tune("study", study, factors, paths.study_release(study))


if __name__ == "__main__":
    run(main)
