"""The registry is what params.yaml takes, and light to load."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from rapt.attacks import ATTACKS
from rapt.attacks.show import print_attacks


def test_every_attack_says_what_its_attacker_knows(capsys: pytest.CaptureFixture[str]) -> None:
    print_attacks()
    shown = capsys.readouterr().out
    for kind in ATTACKS:
        (name,) = get_args(kind.model_fields["type"].annotation)
        assert name in shown
        assert kind.attacker_knowledge
        assert kind.source
        assert all(f.description for n, f in kind.model_fields.items() if n != "type")


def test_validating_params_loads_none_of_what_attacks_compute_with() -> None:
    heavy = ("pyarrow", "scipy", "sklearn", "tokenizers", "torch")
    code = f"import sys, rapt.params; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
