"""How far PCT2T, tuned by LoRA, is above sending nothing, corrected for its list of six rows.

`python -m evidence.corrected TASK`, after `make repro` with the params of a leaderboard with LoRA.
It reads the result of each text, which stays on the user's side.
"""

from __future__ import annotations

import json
import sys

from rapt import paths
from rapt.analysis.intervals import difference
from rapt.baselines.combined import stacked
from rapt.results import predictions

ROWS = 6  # of the list, one for each mechanism: Bonferroni


def main(task: str) -> None:
    """Print the points with their interval."""
    own = predictions.read(paths.predictions("train", f"{task}-minilm-lora-pct2t-recovered-50"))
    local = predictions.read(paths.predictions("local", task))
    right, alone = stacked(own, local).right, local["test"].right
    points = [100 * x for x in difference(right, alone, 1 - 0.05 / ROWS)]
    print(json.dumps(dict(zip(("over_local", "low", "high"), points, strict=True)), indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
