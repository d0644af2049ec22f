"""The user's time in `compared`: `python -m evidence.users_time TABLE TAGGED`.

TABLE is the folder of an embedding table and TAGGED the Parquet file of a split's tagged texts, as
models/tables/minilm and data/tagged/movies/test.parquet of a project in which the preset `compared`
ran. Each mechanism releases the same words on one core, at the η of `linked-50`.
"""

from __future__ import annotations

import csv
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from rapt import params
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils import files

FOLDER, OUT = Path("evidence/compared"), Path("evidence/users_time.json")
TEXTS, LEVEL = 104, "linked-50"


def main(table: str, tagged: str) -> None:
    """Write the milliseconds that each mechanism takes for a text."""
    torch.set_num_threads(1)
    columns = files.read_parquet(Path(tagged), ["words", "pos"]).slice(0, TEXTS)
    words, pos = columns["words"].to_pylist(), columns["pos"].to_pylist()
    found: dict[str, float] = {"words": sum(map(len, words)) / len(words)}
    with threadpool_limits(1), (FOLDER / "cells.csv").open() as file:
        etas = {row["method"]: row["eta_found"] for row in csv.DictReader(file) if at_level(row)}
        methods = params.load(FOLDER / "params.yaml").methods
        for shift, (name, method) in enumerate(methods.items()):
            how: dict[str, Any] = method.mechanism
            opened = EmbeddingTable(Path(table))
            privatizer = mechanism(**how).privatizer(table=opened, eta=float(etas[name]))

            def read(by: int, privatizer: Any = privatizer) -> list[Any]:
                """Take the texts with their words shifted, as encoders keep what they have read."""
                columns = ([row[by:] + row[:by] for row in column] for column in (words, pos))
                return [
                    privatizer.text(*text, stream=partial(stream, 0, row))
                    for row, text in enumerate(zip(*columns, strict=True))
                ]

            started = time.process_time()
            list(privatizer.release(read(-1)[:1]))  # loads what it needs
            texts = read(shift)
            begun = time.process_time()
            list(privatizer.release(texts))
            found[name] = 1000 * (time.process_time() - begun) / len(texts)
            print(f"{name}: {found[name]:.2f} ms, {begun - started:.1f} s before", flush=True)
    files.write_json(OUT, {name: round(value, 2) for name, value in found.items()})


def at_level(row: dict[str, str]) -> bool:
    """Whether a row of the table is of a release at LEVEL."""
    return row["kind"] == "link" and row["eta"] == LEVEL


if __name__ == "__main__":
    main(*sys.argv[1:])
