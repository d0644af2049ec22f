"""Measure everything: `make benchmark` writes reports/benchmarks.json."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    edge,
    flow,
    long_texts,
    mechanisms,
    peer,
    pretraining,
    private,
    products,
    rails,
    report,
    scale,
    training,
    writing,
)
from rapt.utils import files

TABLES = Path(".rapt/benchmarks/tables")  # tens of MB, random: made once, never committed
SUBJECTS = {
    "products": products,
    "mechanisms": mechanisms,
    "peer": peer,
    "edge": edge,
    "rails": rails,
    "scale": scale,
    "training": training,
    "pretraining": pretraining,
    "private": private,
    "writing": writing,
    "long-texts": long_texts,
    "flow": flow,
    "report": report,
}
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def machine() -> dict[str, object]:
    cpu = Path("/proc/cpuinfo").read_text()
    (flags,) = (line for line in cpu.split("\n\n")[0].splitlines() if line.startswith("flags"))
    (model,) = (line for line in cpu.split("\n\n")[0].splitlines() if "model name" in line)
    return {
        "cpu": model.split(":")[1].strip(),
        "cores": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in flags.split()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "torch")},
    }


def main() -> None:
    found: dict[str, object] = {"machine": machine()}
    for name, subject in SUBJECTS.items():
        print(f"\n{name}: {(subject.__doc__ or '').splitlines()[0]}")
        found[name] = subject.run(TABLES)
    files.write_json("reports/benchmarks.json", found)


if __name__ == "__main__":
    main()
