"""The attacks as the terminal shows them."""

from __future__ import annotations

import pytest

from rapt.attacks import ATTACKS
from rapt.attacks.show import as_json, print_attacks


def test_every_attack_says_what_its_attacker_knows(capsys: pytest.CaptureFixture[str]) -> None:
    print_attacks()
    shown = capsys.readouterr().out
    for name, kind in ATTACKS.items():
        assert name in shown
        assert kind.attacker_knowledge
        assert kind.source
        (told,) = (each for each in as_json() if each["name"] == name)
        assert (told["source"], told["knows"]) == (kind.source, kind.attacker_knowledge)
        assert told["parameters"].keys() == kind.model_fields.keys() - {"type"}
        assert all(f.description for n, f in kind.model_fields.items() if n != "type")
