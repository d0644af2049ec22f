"""The sections of params.yaml on tuning."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "transformers", "peft", "scipy")


def test_what_every_command_reads_loads_no_model_library() -> None:
    code = f"import sys, rapt.tuning.config; print([m for m in {HEAVY} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
