"""Tune an adapter: `python -m stages.train CELL movies minilm lora rapt 75`."""

from rapt import paths
from rapt.grid import released
from stages import run
from stages.tuning import tune


def main(cell: str, task: str, backbone: str, tuner: str, method: str, eta: str) -> None:
    """Train every seed of CELL, a cell of the grid, on its release."""
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    tune("train", cell, factors, paths.release(task, released(method, eta)))


if __name__ == "__main__":
    run(main)
