"""The sections of params.yaml on tuning."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from rapt.tuning.config import TrainConfig

HEAVY = ("torch", "transformers", "peft", "scipy", "pandas")


def test_what_every_command_reads_loads_no_model_library() -> None:
    rooms = "rapt.kinds, rapt.tasks, rapt.tuning.config"
    code = f"import sys, {rooms}; print([m for m in {HEAVY} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


@given(rows=st.integers(1, 300), shards=st.integers(1, 12), held_out=st.floats(0, 0.5))
def test_each_row_is_held_out_or_one_teachers(rows: int, shards: int, held_out: float) -> None:
    train = TrainConfig(shards=shards, held_out=held_out)
    shares = [train.tunes_on(rows, k) for k in range(shards)]
    held = [row for row, out in enumerate(train.holds_out(rows)) if out]
    assert sorted([*held, *(row for share in shares for row in share)]) == list(range(rows))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert all(share == sorted(share) for share in shares)


def test_rows_held_out_are_spread_evenly() -> None:
    assert TrainConfig(held_out=0.25).holds_out(8) == [False, False, False, True] * 2


def test_rows_whose_classes_alternate_are_mixed() -> None:
    """Every second row in turn would give a teacher one class alone."""
    assert TrainConfig().tunes_on(4, 1) == [0, 1, 2, 3]
    share = TrainConfig(shards=2).tunes_on(100, 0)
    assert 10 < sum(row % 2 for row in share) < 40
