"""A flow on a machine of several GPUs, by cards that are none: who sees which, and when."""

import os
from collections import Counter
from pathlib import Path

import pytest

from rapt.utils.device import VISIBLE
from tests.pipelines.conftest import FILES, FLOW, Toy, make

pytestmark = pytest.mark.slow

# A stage that holds its card for a while. 1-a's worker is lost once; 2-b needs a whole card. Where
# cards are shared, 2-b waits for another on its card, and the others wait for 2-b.
CELL = """\
import os, signal, sys, time
import stages
home, key, card = stages.home(), sys.argv[1], os.environ["CUDA_VISIBLE_DEVICES"]
def note(change):
    with (home / "cards").open("a") as log:
        log.write(f"{change} {key} {card}\\n")
def beside():
    lines = [line.split() for line in (home / "cards").read_text().splitlines()]
    return sum(int(change) for change, _, on in lines if on == card) - 1
stages.began(key)
first = not (home / "cards").exists() or f"-1 {key} " not in (home / "cards").read_text()
note(+1)
end = time.monotonic() + 60
while first and (home / "shared").exists() and time.monotonic() < end:
    if beside() if key == "2-b" else "1 2-b" in (home / "cards").read_text():
        break
    time.sleep(0.05)
if key == "2-b" and first and beside():
    note(-1)
    sys.exit("torch.OutOfMemoryError: CUDA out of memory.")
time.sleep(1.5)
if key == "1-a" and not (home / "lost").exists():
    (home / "lost").touch()
    note(-1)
    os.kill(os.getpid(), signal.SIGKILL)
stages.write(f"reports/cells/{key}.txt", key)
note(-1)
"""
CONTENTS = FILES | {
    "dvc.yaml": FILES["dvc.yaml"].replace("  cell:\n", "  cell:\n    meta: {gpu: true}\n"),
    "stages/cell.py": CELL,
}


@pytest.fixture
def toy(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A project whose cells want a card, on a machine that has two."""
    (tmp_path / "bin").mkdir()
    driver = tmp_path / "bin/nvidia-smi"
    driver.write_text("#!/bin/sh\necho GPU-a; echo GPU-b\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in (*VISIBLE, "RAPT_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    return make(tmp_path / "toy", server, CONTENTS)


@pytest.mark.parametrize(("per_gpu", "out_of_memory"), [(1, 0), (2, 1)])
def test_no_card_holds_more_stages_than_may_share_it(
    toy: Toy, per_gpu: int, out_of_memory: int
) -> None:
    if per_gpu > 1:
        (toy.root / ".rapt").mkdir(exist_ok=True)
        (toy.root / ".rapt/shared").touch()
    command = (*FLOW, "--slots", "4", "--per-gpu", str(per_gpu))
    said = toy.run(*command).stderr
    log = (toy.root / ".rapt/cards").read_text()
    held, most, ended = Counter[str](), 0, Counter[str]()
    for line in log.splitlines():
        change, key, card = line.split()
        assert card in ("GPU-a", "GPU-b")
        held[card] += int(change)
        most = max(most, held[card])
        ended[key] += change == "-1"
        if key == "2-b" and ended[key] == out_of_memory:
            assert held[card] <= 1, "its last run, which shares its card with none"
    assert most == per_gpu
    assert ended == {"1-a": 2, "1-b": 1, "2-a": 1, "2-b": 1 + out_of_memory}
    assert said.count("beside others on a GPU: again alone") == out_of_memory * 2
    assert toy.names().count("report") == 1
