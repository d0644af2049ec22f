from collections.abc import Callable
from pathlib import Path

import pytest

from rapt.data.config import Format
from rapt.release.job import Job
from rapt.release.ledger import Ledger
from rapt.release.preview import shown
from rapt.release.text import TextPrivatizer
from tests.release.conftest import FOUR


@pytest.fixture
def job(tmp_path: Path) -> Job:
    path = tmp_path / "in.txt"
    path.write_text("Bob met Alice at 7, very slow and very unbelievabubble.\n" * 2)
    return Job(path, tmp_path / "out.txt", Format(type="text"), ("text",))


def test_it_counts_what_would_stay_and_writes_nothing(
    job: Job, make: Callable[..., TextPrivatizer]
) -> None:
    lines = shown(job, make(eta=0.1, categories=FOUR)).splitlines()
    assert "of the first 2 texts" in lines[0]
    assert {"  adverb: 4", "  conjunction: 2"} <= set(lines)
    (often,) = [line for line in lines if line.startswith("Most often: ")]
    assert "very (4)" in often
    assert not any(word in often for word in ("bob", "unbelievabubble", "7"))
    before, after = lines[-2:]
    assert before.startswith("before: Bob met Alice at 7")
    assert "very" in after and "unbelievabubble" not in after and "<number>" in after
    assert not job.out.exists()
    assert Ledger().total() == (0, 0, 0)


def test_where_every_word_gets_noise_none_stays(
    job: Job, make: Callable[..., TextPrivatizer]
) -> None:
    lines = shown(job, make(eta=0.1)).splitlines()
    assert "0 stay:" in lines[0]
    assert "Most often: none" in lines
