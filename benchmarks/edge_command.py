"""One run of `rapt privatize`, in a fresh process: with its start, the tagging and the files."""

import json
import sys
import time

from benchmarks.measure import memory  # the standard library alone

bare, start = memory("VmHWM"), time.perf_counter()

from rapt.cli import app  # noqa: E402

app(["privatize", *sys.argv[1:]], standalone_mode=False)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "memory": memory("VmHWM") - bare}))
