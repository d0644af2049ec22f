"""Scores of texts, against known figures and sacreBLEU's own command."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from rapt.analysis import written
from rapt.data.triples import source, words_alone
from rapt.utils import files

REFERENCES = [["The cat sat on the mat .", "A cat was on the mat ."], ["It is a dog ."]]


def test_a_reference_scores_all_and_other_words_nothing() -> None:
    texts = ["A cat was on the mat .", "It is a dog ."]
    found = written.scores(texts, REFERENCES)
    assert found == pytest.approx({"bleu": 1, "bleu_lower": 1, "chrf": 1, "ter": 0})
    assert written.interval([texts, texts], REFERENCES) == pytest.approx((1, 1))
    assert written.scores(["x", "y"], REFERENCES)["bleu"] < 0.05
    upper = [text.upper() for text in texts]
    assert written.scores(upper, REFERENCES)["bleu_lower"] == pytest.approx(1)


def test_bleu_is_that_of_sacrebleu(tmp_path: Path) -> None:
    texts = ["The cat was there on the mat .", "It is not a dog ."]
    (tmp_path / "texts").write_text("\n".join([*texts, ""]))
    for i, stream in enumerate(zip(REFERENCES[0], [*REFERENCES[1], ""], strict=True)):
        (tmp_path / f"ref{i}").write_text("\n".join([*stream, ""]))
    command = [sys.executable, "-m", "sacrebleu", "ref0", "ref1", "-i", "texts", "-b", "-w", "6"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    bleu = written.scores(texts, REFERENCES)["bleu"]
    assert bleu == pytest.approx(float(done.stdout) / 100, abs=1e-6)
    low, high = written.interval([texts], REFERENCES)
    assert low <= bleu <= high


def test_groups_are_scored_on_their_own() -> None:
    texts = ["A cat was on the mat .", "no"]
    found = written.by_group(texts, REFERENCES, ["seen", "not-seen"])
    assert found["bleu_of_seen"] == pytest.approx(1)
    assert found["bleu_of_not-seen"] < 0.1
    assert "bleu_of_None" not in written.by_group(texts, REFERENCES, [None, None])


def test_the_share_of_entities_that_are_told() -> None:
    assert written.recall(["the CAT sat", "a dog"], [["Cat", "mat"], ["dog"]]) == pytest.approx(
        2 / 3
    )
    assert math.isnan(written.recall(["a"], [[]]))
    assert math.isnan(written.one_against_the_others([["only"]]))


def test_who_copies_the_triples_scores_what_is_known(shared: Path) -> None:
    """20.8 on all entries, 24.0 and 16.6 on seen and unseen ones: measured with other code.

    So is one reference against the others, 45.8.
    """
    test = files.read_parquet(shared / "webnlg/test.parquet")
    texts = [words_alone(source(triples)) for triples in test["input"].to_pylist()]
    seen = test["seen"].to_pylist()
    references = test["references"].to_pylist()
    for rows, expected in (([True, False], 0.208), ([True], 0.240), ([False], 0.166)):
        at = [row for row, is_seen in enumerate(seen) if is_seen in rows]
        own = written.bleu([texts[row] for row in at], [references[row] for row in at])
        assert own == pytest.approx(expected, abs=0.001)
    assert written.one_against_the_others(references) == pytest.approx(0.458, abs=0.001)
