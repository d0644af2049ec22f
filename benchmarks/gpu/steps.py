"""The steps of `python3 -m benchmarks.gpu`: each finds figures, or runs cells of the experiment.

The other benchmarks ask for the device when they are imported, which is done where it can be told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import numpy as np
import torch

from benchmarks.measure import Figure, figure, interleaved, ratio, seconds
from rapt import grid, params, paths
from rapt.kinds import kind_of
from rapt.privacy.mechanisms.noise import spherical_noise
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.streams import stream
from rapt.serving.client import Remote
from rapt.serving.protocol import Text
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.device import device, device_name
from rapt.utils.errors import RaptError
from stages.tuning import run_of

TASK, BACKBONE, TUNER, METHOD, ETA = "sst2", "minilm", "lora", "t2t", "75"
LEAST = 8 << 30  # bytes of a card that the steps need
MARK = "mark.gpu"  # of the tests that are worth a card
SIDE, QUERIES, ASKED = 8192, 1 << 16, 200


def card(out: Path) -> list[Figure]:
    """The card, its products, and what every other step reads."""
    where = device().type
    if where == "mps" or (where == "cpu" and os.environ.get("RAPT_DEVICE") != "cpu"):
        raise RaptError(
            f"RAPT_DEVICE: got {where}, expected cuda. To try the steps without a card, set it to "
            "cpu: the figures then say nothing."
        )
    if where == "cuda" and (room := torch.cuda.mem_get_info()[1]) < LEAST:
        raise RaptError(f"card: got {room >> 30} GiB, expected {LEAST >> 30} or more.")
    _prepare()
    if _is_try():
        return [figure("none: a try on the CPU", 0, "cards")]
    return [
        figure(f"{device_name()}: product in bfloat16", _product(torch.bfloat16), "TFLOP/s"),
        figure(f"{device_name()}: product in float32", _product(torch.float32), "TFLOP/s"),
    ]


def _is_try() -> bool:
    """Whether there is no card, and the figures say nothing."""
    return device().type == "cpu"


def _prepare() -> None:
    """Complete the table by the model's vectors, and locate the backbone."""
    table, backbone = paths.table("minilm"), paths.backbone(BACKBONE)
    if not backbone.is_dir():
        subprocess.run([sys.executable, "-m", "stages.backbone", BACKBONE], check=True)
    if not (table / "vectors.npy").is_file():
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = Path(files.read_json(backbone / "source.json")["model"])
        weights = load_file(folder / "model.safetensors")
        pieces = weights["embeddings.word_embeddings.weight"].astype(np.float32)
        tokens = Tokenizer.from_file(str(table / "tokenizer.json"))
        words = files.read_json(table / "words.json")["word"]
        rows = np.array([tokens.token_to_id(word) for word in words])
        np.save(table / "pieces.npy", pieces)
        np.save(table / "vectors.npy", pieces[rows])


def _product(of: torch.dtype) -> float:
    one = torch.randn(SIDE, SIDE, dtype=of, device=device())
    times = []
    for _ in range(12):
        torch.cuda.synchronize()
        start = time.perf_counter()
        one @ one
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 2 * SIDE**3 / median(times[2:]) / 1e12


def tests(out: Path) -> list[Figure]:
    """The tests that are worth a card."""
    with TemporaryDirectory() as scratch:
        report = Path(scratch, "tests.xml")
        command = ["-m", "pytest", "-q", "-m", "gpu and not slow", "-p", "no:cacheprovider"]
        # Of the others some need what the machine lacks.
        marked = [path for path in Path("tests").rglob("test_*.py") if MARK in path.read_text()]
        command += map(str, marked)
        subprocess.run([sys.executable, *command, f"--junitxml={report}"])
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                print(f"FAILED {case.get('classname')}::{case.get('name')}", flush=True)
        names = ("tests", "failures", "errors", "skipped")
        return [figure(f"tests: {name}", int(suite.get(name, 0)), "tests") for name in names]


def privatizing(out: Path) -> list[Figure]:
    """The whole of SST-2, a copy for each seed."""
    release, p = paths.release(TASK, f"{METHOD}-{ETA}"), params.load()
    took = seconds(lambda: _privatize(METHOD, ETA, release))
    splits = [files.read_parquet(path) for path in paths.seed(release, 0).glob("t*.parquet")]
    words = p.seeds * sum(len(text) for split in splits for text in split["words"].to_pylist())
    return [
        figure("privatizing by T2T, statement included", took, "s"),
        figure("its words", words / took, "words/s"),
    ]


def _privatize(method: str, eta: str, release: Path) -> None:
    _run("privatize", TASK, method, eta, "minilm", str(release))


def _run(stage: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", f"stages.{stage}", *arguments], check=True)


def search(out: Path) -> list[Figure]:
    """Exact neighbours, against the product that no exact search can do without."""
    table = EmbeddingTable(paths.table("minilm"))
    words = [table.words[i % len(table.words)] for i in range(QUERIES // (64 if _is_try() else 1))]
    noise = spherical_noise(stream(0, "benchmark"), len(words), table.dimension)
    queries = table.embed(words) + noise / float(ETA)
    exact, vectors = ExactSearch(np.asarray(table.vectors)), torch.tensor(np.array(table.vectors))
    there, single = vectors.to(device()), torch.tensor(queries, dtype=torch.float32)

    def product() -> None:
        for part in single.split(8192):
            scores = part.to(device()) @ there.T
        scores[0, 0].item()

    taken = interleaved({"search": lambda: exact(queries), "product": product}, 3)
    share = ratio(taken["product"], taken["search"])
    return [
        figure("exact search", len(words) / median(taken["search"]), "words/s"),
        figure("exact search / product of this device", share, "of its rate", least=0.7),
    ]


def seed(out: Path) -> list[Figure]:
    """One seed of SST-2: LoRA on MiniLM, from the release to its scores."""
    from benchmarks import training

    p, release = params.load(), paths.release(TASK, f"{METHOD}-{ETA}")
    factors = {"task": TASK, "backbone": BACKBONE, "tuner": TUNER, "method": METHOD, "eta": ETA}
    kind = kind_of(files.read_json(paths.statement(release)))
    if _is_try():  # many a CPU only emulates bfloat16, fifty times as slowly
        p = p.model_copy(update={"train": p.train.model_copy(update={"precision": "float32"})})
    run = run_of(p, "benchmark", factors, kind, release, 0, Path("models/adapters/benchmark"))
    took = seconds(lambda: training.train_anew([[run]]))
    texts = p.train.epochs * len(files.read_parquet(paths.seed(release, 0) / "train.parquet"))
    return [figure("a seed of SST-2", took, "s"), figure("its texts", texts / took, "texts/s")]


def bert_base(out: Path) -> list[Figure]:
    """The loop at BERT-base's shape, against Trainer and the card's product."""
    from benchmarks import training

    with TemporaryDirectory() as scratch:
        shape = training.MINILM_SHAPE if _is_try() else training.BERT_BASE
        run = training.told(Path(scratch), shape)
        return [training.tokenizing(run), *training.loop(run)]


def seeds(out: Path) -> list[Figure]:
    """Five seeds of a cell together, against one after the other."""
    from benchmarks import training

    with TemporaryDirectory() as scratch:
        return training.seeds(training.told(Path(scratch), training.MINILM_SHAPE))


def serving(out: Path) -> list[Figure]:
    """One text's time from `rapt serve`, with the model that `seed` tuned."""
    served = "from pathlib import Path; from rapt.serving.server import serve; serve(Path({!r}), 0)"
    adapter = paths.seed(Path("models/adapters/benchmark"), 0)
    command = [sys.executable, "-c", served.format(str(adapter))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            line = next(line for line in server.stderr if "http://" in line)
            remote = Remote(line.split(" at ")[1].split(",")[0])
            text = Text(words=["a", "moving", "and", "funny", "film"], segment=[0] * 5, plain=[])
            times = [seconds(lambda: remote.answer([text])) for _ in range(ASKED)]
        finally:
            server.kill()
    return [figure("one text from rapt serve, the median", 1000 * median(times), "ms")]


def writes(out: Path) -> list[Figure]:
    """A language model that writes, against Transformers' generate."""
    from benchmarks import writing

    return writing.run(out)


def experiment(out: Path) -> list[Figure]:
    """Cells of params.yaml that are not there yet: those of one η together."""
    results = out / "results.tar"
    cells = sorted(grid.plan(params.load()), key=lambda cell: cell.factors["eta"])
    done = 0
    for cell in cells:
        if cell.kind != "train" or cell.path.is_file():
            continue
        factors = [cell.factors[name] for name in ("task", "backbone", "tuner", "method", "eta")]
        method, eta = factors[-2:]
        release = paths.release(TASK, grid.released(method, eta))
        if not release.is_dir():
            _privatize(method, eta, release)
        _run("train", cell.cell, *factors)
        done += 1
        with files.atomic(results) as new, tarfile.open(new, "w") as tar:
            for folder in (paths.CELLS, paths.CELLS.with_name("predictions")):
                tar.add(folder)
        print(f"{cell.cell}: {time.strftime('%H:%M:%S')}", flush=True)
    return [figure("cells", done, "cells")]


STEPS: dict[str, Callable[[Path], list[Figure]]] = {
    "card": card,
    "tests": tests,
    "privatizing": privatizing,
    "search": search,
    "seed": seed,
    "bert-base": bert_base,
    "seeds": seeds,
    "serving": serving,
    "writing": writes,
    "experiment": experiment,
}


def main(name: str, found: str, out: str) -> None:
    """Run a step; write what it found."""
    try:
        files.write_json(Path(found), STEPS[name](Path(out)))
    except RaptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
