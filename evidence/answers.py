"""Keep of an experiment's predictions which class was answered: `python -m evidence.answers NAME`.

Run in the folder of the experiment, with evidence/NAME/params.yaml as its params. Scores would take
twenty times as much; accuracies and their differences, text by text, need none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from rapt import paths
from rapt.results import predictions
from rapt.results.predictions import Predictions


def main(name: str) -> None:
    """Write evidence/NAME/reports/predictions from the predictions of the test split."""
    for path in sorted(paths.predictions("train", "x").parent.parent.glob("*/*.parquet")):
        if test := predictions.read(path).get("test"):
            answered = np.eye(test.logits.shape[2])[test.logits.argmax(axis=2)]
            kept = Predictions(test.examples, test.labels, answered)
            predictions.write(Path("evidence") / name / path, {"test": kept})


if __name__ == "__main__":
    main(sys.argv[1])
