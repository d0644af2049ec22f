"""Score what a tuned model wrote: `python -m stages.score CELL webnlg smollm2 lora t2t 75`."""

from rapt import params, paths
from rapt.grid import SCORE, released
from rapt.results import cells
from rapt.utils import files
from stages import run


def main(cell: str, task: str, backbone: str, tuner: str, method: str, eta: str) -> None:
    """Restore every answer of CELL, and score it against what only the user has."""
    p = params.load()
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    release = paths.release(task, released(method, eta))
    statement = files.read_json(paths.statement(release))
    result = cells.Cell(SCORE, cell, factors | {"embedding": statement["embedding"]})
    answers = paths.predictions("train", cell)
    scored = p.tasks[task].scored(task, release, answers, paths.predictions(SCORE, cell))
    result.write(
        protection=statement["protection"],
        seeds=[
            cells.SeedResult(seed=k, metrics=dict(metrics))
            for k, metrics in enumerate(scored.metrics)
        ],
        intervals=scored.intervals,
        counts=scored.counts,
        baselines=scored.baselines,
    )


if __name__ == "__main__":
    run(main)
