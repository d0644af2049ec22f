"""The probe: what it measures, and that it measures once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from rapt import speed
from rapt.utils import files


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAPT_HOME", raising=False)


def test_the_probe_measures_a_product_and_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SECONDS", 0.05)
    start, product, training = speed.probe(64)
    assert start > 0
    assert 1e8 < training < 1e13 and 1e8 < product < 1e13


def test_a_width_is_measured_once_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []

    def run(command: list[str], **_: object) -> speed.subprocess.CompletedProcess[str]:
        widths.append(int(command[-1]))
        return speed.subprocess.CompletedProcess(command, 0, f"4.5 5e10 {widths[-1]}e6")

    monkeypatch.setattr(speed.subprocess, "run", run)
    assert speed.known() is None
    assert speed.measured(384).training == {"384": 384e6}
    both = speed.measured(4096)
    assert (both.start, both.product) == (4.5, 5e10)
    assert both.training == {"384": 384e6, str(speed.WIDEST): speed.WIDEST * 1e6}
    assert both == speed.measured(384) == speed.known()
    assert widths == [384, speed.WIDEST]
    assert both.of(300) == both.of(400) == 384e6
    other = asdict(both) | {"machine": "another"}
    files.write_json(".rapt/speed.json", other)
    assert speed.known() is None


def test_a_probe_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed.sys, "executable", "false")
    with pytest.raises(speed.RaptError) as error:
        speed.measured(384)
    assert "\n" not in str(error.value)
