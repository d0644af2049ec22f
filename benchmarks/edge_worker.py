"""One small device's run, in a fresh process: start, release words that are tagged, report."""

import json
import sys
import time

from benchmarks.measure import memory  # the standard library alone

bare, start = memory("VmHWM"), time.perf_counter()

from pathlib import Path  # noqa: E402

from rapt.privacy.base import PreparedText  # noqa: E402
from rapt.privacy.mechanisms import T2T  # noqa: E402
from rapt.privacy.privatizer import Privatizer  # noqa: E402
from rapt.privacy.streams import fresh  # noqa: E402
from rapt.text.table import EmbeddingTable  # noqa: E402

folder, eta, size, n = Path(sys.argv[1]), *map(float, sys.argv[2:5])
privatizer = Privatizer(table=EmbeddingTable(folder), mechanism=T2T(), eta=eta)
started = time.perf_counter() - start

words = [f"w{(7919 * i) % int(size)}" for i in range(int(n))]
texts = (words[i : i + 100] for i in range(0, len(words), 100))
start = time.perf_counter()
released = sum(map(len, privatizer.privatize(PreparedText(t, [0] * len(t), fresh) for t in texts)))
print(
    json.dumps(
        {
            "start_up": started,
            "seconds": time.perf_counter() - start,
            "memory": memory("VmHWM") - bare,
            "released": released,
            "torch": "torch" in sys.modules,
        }
    )
)
