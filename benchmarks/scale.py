"""A million words, streamed: the cost of each stays, and so does the memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, figure, memory

SIZE, DIMENSION = 30_000, 50
STEPS = (100_000, 1_000_000)


def run(tables: Path) -> list[Figure]:
    from benchmarks.tables import write_table

    folder = write_table(tables / f"{SIZE}x{DIMENSION}", SIZE, DIMENSION)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", str(folder)], capture_output=True, check=True
    )
    first, last = json.loads(done.stdout)
    # By the tenth of the words that came first, and by the nine that came then.
    cost = (last["seconds"] - first["seconds"]) / (STEPS[1] - STEPS[0])
    each = first["seconds"] / STEPS[0]
    return [
        figure("one of 1,000,000 words, d=50", 1e6 * cost, "µs"),
        figure("its cost to that of the first 100,000", cost / each, "times", most=1.2),
        figure("peak memory at 1,000,000 words", last["memory"], "MiB"),
        figure("more than at 100,000", last["memory"] - first["memory"], "MiB", most=10),
    ]


def _stream(folder: Path) -> Iterator[dict[str, float]]:
    from benchmarks.tables import t2t
    from rapt.privacy.base import PreparedText
    from rapt.privacy.streams import fresh
    from rapt.text.table import EmbeddingTable

    privatizer = t2t(EmbeddingTable(folder))
    texts = ([f"w{(7919 * i + j) % SIZE}" for j in range(100)] for i in range(STEPS[-1] // 100))
    start, released = time.perf_counter(), 0
    for text in privatizer.privatize(PreparedText(text, [0] * 100, fresh) for text in texts):
        released += len(text)
        if released in STEPS:
            yield {"seconds": time.perf_counter() - start, "memory": memory("VmHWM")}


if __name__ == "__main__":
    print(json.dumps(list(_stream(Path(sys.argv[1])))))
