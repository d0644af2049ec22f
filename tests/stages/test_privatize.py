"""A release as its stage writes it."""

import json
from pathlib import Path

import pytest

from rapt.tuning.inputs import read_targets
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import privatize
from tests.conftest import NOUNS, VERBS
from tests.stages.conftest import RELEASE, edited, gate, privatize_anew


def test_privatizing_again_gives_the_same_bytes(movies: Path) -> None:
    before = files.sha256(RELEASE)
    privatize.main("movies", "rapt", "2", "minilm", RELEASE)
    assert files.sha256(RELEASE) == before


def test_each_seed_s_copy_spends_anew(movies: Path) -> None:
    tagged = [files.read_parquet(f"data/tagged/movies/{s}.parquet") for s in ("train", "test")]
    texts = [tags for rows in tagged for tags in rows["pos"].to_pylist()]
    longest = max(sum(tag in ("NOUN", "VERB") for tag in tags) for tags in texts)
    statement = json.loads((RELEASE / "statement.json").read_text())
    assert statement["seeds"] == 2
    assert statement["budget_of_the_longest"]["words"] == 2 * longest


def test_the_release_says_which_sequence_a_text_was_given(movies: Path) -> None:
    statement = privatize_anew("1000000", sequences=3, choice="frequency", vocabulary=12)
    assert gate()["passed"]
    assert statement["plain_tokens"] == {"length": 10, "sequences": 3, "choice": "frequency"}
    assert statement["vocabulary"] == 12
    plain = files.read_parquet(RELEASE / "seed-0/plain.parquet").to_pydict()
    assert plain["sequence"] == [0] * 10 + [1] * 10 + [2] * 10
    targets = read_targets(RELEASE / "seed-0/plain.parquet")
    assert targets.flatten().tolist() == plain["target"]
    assert targets.shape == (3, 10)
    assert max(plain["target"]) < 12
    words = [plain["word"][start : start + 10] for start in (0, 10, 20)]
    for split in ("train", "test"):
        copy = files.read_parquet(RELEASE / f"seed-0/{split}.parquet").to_pydict()
        assert set(copy["sequence"]) == {0, 1, 2}
        assert copy["plain"] == [words[sequence] for sequence in copy["sequence"]]


def test_plain_tokens_cost_nothing(movies: Path) -> None:
    """They are public: the statement is that of the same method without them."""
    own = ("method", "plain_tokens", "vocabulary")
    given = json.loads((RELEASE / "statement.json").read_text())
    without = privatize_anew("2", method="pct2t")
    assert not (RELEASE / "seed-0/plain.parquet").exists()
    assert without["plain_tokens"] is None
    assert without["vocabulary"] is None
    assert {k: v for k, v in given.items() if k not in own} == {
        k: v for k, v in without.items() if k not in own
    }
    assert gate()["passed"]


def test_more_words_than_the_table_has_are_one_line(movies: Path) -> None:
    with pytest.raises(RaptError, match="vocabulary: got 15, expected at most the 14") as error:
        privatize_anew("2", vocabulary=15)
    assert "\n" not in str(error.value)


def test_seeds_have_their_own_noise_and_plain_words(movies: Path) -> None:
    copies = [files.read_parquet(RELEASE / f"seed-{k}/test.parquet").to_pydict() for k in (0, 1)]
    assert copies[0]["words"] != copies[1]["words"]
    plain = [files.read_parquet(RELEASE / f"seed-{k}/plain.parquet").to_pydict() for k in (0, 1)]
    assert plain[0]["word"] != plain[1]["word"]
    statement = json.loads((RELEASE / "statement.json").read_text())
    vocabulary = sorted(NOUNS + VERBS, key=[*NOUNS, *VERBS].index)
    assert statement["vocabulary"] == len(vocabulary)
    assert [vocabulary[t] for t in plain[0]["target"]] == plain[0]["word"]
    # Each text has a privatized copy of its own.
    assert len({tuple(words) for words in copies[0]["plain"]}) > 50


def test_a_weak_release_is_refused_and_never_pushed(movies: Path) -> None:
    out = Path("data/private/movies/rapt-1000000")
    weak = ("movies", "rapt", "1000000", "minilm", out)
    with pytest.raises(RaptError, match=r"^eta: got 1e\+06, .* or allow_weak: true\.$"):
        privatize.main(*weak)
    with edited() as content:
        content["allow_weak"] = True
    Path(".dvc").mkdir()
    config = "[core]\n    remote = storage\n['remote \"storage\"']\n    url = s3://a/b%20c\n"
    for name in ("config", "config.local"):
        Path(".dvc", name).write_text(config)
        with pytest.raises(RaptError, match=r"^allow_weak: got true beside .* 'storage'"):
            privatize.main(*weak)
        assert not out.exists()
        Path(".dvc", name).unlink()
    privatize.main(*weak)
    assert out.with_name("rapt-1000000.txt").read_text().startswith("WEAK")
    Path(".dvc/config").write_text(config)
    privatize.main("movies", "rapt", "2", "minilm", RELEASE)
    privatize.main("movies", "clean", "inf", "minilm", Path("data/private/movies/clean"))


def test_training_labels_with_noise_are_drawn_stated_and_checked(movies: Path) -> None:
    """The test split's stay. A release with other labels is stopped."""
    with edited() as content:
        content["methods"]["rapt"]["labels"] = {"epsilon": 1.5}
    before = json.loads((RELEASE / "statement.json").read_text())
    assert "label" in before["columns"] and "label_noise" not in before
    with pytest.raises(RaptError, match="labels, segments and spacing"):
        gate()
    privatize_anew("2")
    for split, stays in (("train", False), ("test", True)):
        own = files.read_parquet(f"data/tagged/movies/{split}.parquet")["label"].to_pylist()
        copies = [
            files.read_parquet(RELEASE / f"seed-{k}/{split}.parquet")["label"].to_pylist()
            for k in range(2)
        ]
        assert [copy == own for copy in copies] == [stays, stays]
        assert (copies[0] == copies[1]) == stays
    after = json.loads((RELEASE / "statement.json").read_text())
    assert after["label_noise"] == 1.5 and "label" not in after["columns"]
    assert after["guarantee"].endswith("It adds 1.5 to the text's loss.")
    assert any("labels of the test split" in gap for gap in after["not_covered"])
    for name, loss in before["budget_of_the_longest"]["loss"].items():
        more = after["budget_of_the_longest"]["loss"][name]["at_most"] - loss["at_most"]
        assert more == pytest.approx(2 * 1.5)  # two copies
    assert gate()["passed"]
