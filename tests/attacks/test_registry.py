"""The registry is what params.yaml takes, and light to load."""

from __future__ import annotations

import subprocess
import sys


def test_validating_params_loads_none_of_what_attacks_compute_with() -> None:
    heavy = ("pyarrow", "scipy", "sklearn", "tokenizers", "torch")
    code = f"import sys, rapt.params; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
