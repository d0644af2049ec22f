"""Which of a command's failures may pass. What the process does: test_slots, test_exchange."""

from pathlib import Path

import pytest

from pipelines.served import CommandError


@pytest.mark.parametrize(
    ("code", "said", "may_pass"),
    [
        (-9, "", True),
        (255, "ERROR: failed to reproduce 'cell': failed to run: x, exited with -9", True),
        (255, "failed to run: x, exited with 137", True),
        (255, "torch.OutOfMemoryError: CUDA out of memory.", True),
        (255, "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", True),
        (255, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9. TiB", True),
        (255, "MemoryError\nfailed to run: x, exited with 1", True),
        (255, "ERROR: Unable to acquire lock. Most likely another DVC process", True),
        (255, "got 'etaa', expected eta.\nERROR: failed to run: x, exited with 2", False),
        (
            255,
            "OSError: [Errno 28] No space left on device\nfailed to run: x, exited with 1",
            False,
        ),
    ],
)
def test_only_what_may_pass_is_tried_again(
    tmp_path: Path, code: int, said: str, may_pass: bool
) -> None:
    log = tmp_path / "log"
    log.write_text(said)
    assert CommandError("cell", code, log).may_pass is may_pass
