"""Score what the user reaches alone, with nothing sent: `python -m stages.local movies`."""

from rapt import params, paths
from rapt.grid import LOCAL, NOTHING_SENT_ETA
from rapt.results import cells
from stages import run


def main(task: str) -> None:
    """Score the baseline of TASK's kind, on raw text."""
    p = params.load()
    nothing_sent = {"method": LOCAL, "eta": NOTHING_SENT_ETA}
    cell = cells.Cell(LOCAL, task, {"task": task, **nothing_sent, "embedding": p.embedding})
    scored = p.tasks[task].alone(task, p.embedding, paths.predictions(LOCAL, task))
    cell.write(
        protection="nothing sent",
        seeds=[cells.SeedResult(seed=0, metrics=dict(scored.metrics[0]))],
        intervals=scored.intervals,
        counts=scored.counts,
        baselines=scored.baselines,
    )


if __name__ == "__main__":
    run(main)
