"""A recognizer as it is trained, stored and read."""

from __future__ import annotations

from pathlib import Path

from threadpoolctl import threadpool_limits

from rapt.attacks.recognizer import Recognizer
from rapt.utils import files
from tests.attacks.test_ner import drawn, ner
from tests.attacks.test_ner import fitted as fitted
from tests.tuning.conftest import backbone as backbone


def test_reads_long_texts_to_their_end(backbone: Path, fitted: Path) -> None:
    """In parts of 10 tokens and two special ones, whose borders cut words and entities."""
    words, tags = drawn(20, 40, seed=2)
    assert Recognizer.load(fitted, 12).tags([*words, []]) == [*tags, []]


def test_one_seed_gives_one_recognizer_whatever_the_cores(backbone: Path, tmp_path: Path) -> None:
    how, own = ner(backbone, epochs=1), drawn(32, 6, seed=0)
    digests = []
    for threads, seed in ((1, 0), (2, 0), (1, 1)):
        with threadpool_limits(threads):
            Recognizer.fitted(how, *own, seed=seed).save(tmp_path / f"{len(digests)}")
        digests.append(files.sha256(tmp_path / f"{len(digests)}"))
    assert digests[0] == digests[1] != digests[2]
