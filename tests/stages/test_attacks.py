"""From releases to the cells of the attacks on them, each by its stage."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rapt.attacks.attributes import AttributeMlp, Authorship
from rapt.attacks.base import Inverter, Pairs, Public, Release, Values
from rapt.attacks.entities import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.attacks.trained_inversion import MlpInversion
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import channel, infer, invert, link, privatize, recognize, recognizer
from tests.attacks.test_scores import bounds_of
from tests.conftest import NOUNS, OTHERS
from tests.stages.conftest import RELEASE, Workspace, edited, put_columns, write_tagged

Texts = list[list[str]]
# Each inversion by its name in params.yaml, and whether a bound on it is known.
INVERSIONS = {"nearest": 0, "autoencoder": 0, "bayes": 1, "bayes-twice": 0, "bayes-context": 0}


def column(path: str, name: str = "words") -> Any:
    return files.read_parquet(path)[name].to_pylist()


def tagged(split: str, name: str = "words") -> Any:
    return column(f"data/tagged/mine/{split}.parquet", name)


def cell(kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = files.read_json(f"reports/cells/{kind}/{name}.json")
    return found


@pytest.mark.parametrize("eta", ["3", "inf"])
def test_inversions_with_and_without_the_channel(small: Path, eta: str) -> None:
    path = Path("data/tagged/mine")
    train, test = (files.read_parquet(path / f"{split}.parquet") for split in ("train", "test"))
    files.write_parquet(path / "train.parquet", pa.concat_tables([train, test.slice(0, 1)]))
    victims = test["words"].to_pylist()
    privatize.main("mine", "pct2t", eta, "minilm", Path(f"data/private/mine/pct2t-{eta}"))
    channel.main("minilm", "pct2t", eta)
    for attack, key in INVERSIONS.items():
        invert.main(attack, "mine", "pct2t", eta)
        found = cell("invert", f"{attack}-mine-pct2t-{eta}")
        assert found["factors"]["attack"] == attack
        assert found["protection"] == ("unprotected" if eta == "inf" else "d_X-privacy")
        counts = {"words": 96, "protected": 72}
        if attack == "bayes-context":  # which has read none of the victims' texts
            counts["texts of mine"] = sum(w not in victims for w in train["words"].to_pylist())
        assert found["counts"] == counts
        # Two seeds' copies are two repetitions, or one of an attacker who has both.
        seeds = [seed["seed"] for seed in found["seeds"]]
        assert seeds == ([0] if attack == "bayes-twice" else [0, 1])
        private = found["metrics"]["empirical_privacy"]
        assert private["low"] <= private["mean"] <= private["high"]
        assert ("accuracy_protected" in found["upper_bounds"]) == key
        assert ("squared_error" in found["metrics"]) == (attack == "autoencoder")
        if eta == "inf":
            assert private["mean"] == 0 or attack == "autoencoder"  # 72 words teach it little
            assert list(found["upper_bounds"].values()) == [1.0] * key
        else:
            assert 0 < private["mean"] < 1


def test_inversion_is_one_minus_the_replaced_share(movies: Path) -> None:
    """Of the test split's protected words, as the tiny table's words are all in the table."""
    invert.main("nearest", "movies", "rapt", "2")
    found = cell("invert", "nearest-movies-rapt-2")
    rows = files.read_parquet("data/tagged/movies/test.parquet").to_pydict()
    after = column(f"{RELEASE}/seed-0/test.parquet")
    same = [
        w == a
        for words, pos, released in zip(rows["words"], rows["pos"], after, strict=True)
        for w, tag, a in zip(words, pos, released, strict=True)
        if tag in ("NOUN", "VERB")
    ]
    assert found["seeds"][0]["metrics"]["accuracy_protected"] == pytest.approx(np.mean(same))
    assert found["counts"]["protected"] == len(same)
    kept = files.read_parquet("reports/predictions/invert/nearest-movies-rapt-2.parquet")
    kept = kept.filter(pc.equal(kept["seed"], 0))
    assert kept["example_id"].to_pylist() == rows["example_id"]
    totals = [sum(kept[name].to_pylist()) for name in ("right", "counted")]
    assert totals == [sum(same), len(same)]


def test_attacks_learn_from_the_train_split_and_are_scored_on_the_test_split(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last seed that a stage reads; the splits have different texts and attributes."""
    for number, split in enumerate(("train", "test")):
        values = [f"{split}-{(i + number) % 3}" for i in range(24)]
        put_columns(f"data/tagged/mine/{split}.parquet", attribute_author=values)
    assert tagged("train") != tagged("test")
    folder = Path("data/private/mine/pct2t-3")
    privatize.main("mine", "pct2t", "3", "minilm", folder)
    after = {split: column(f"{folder}/seed-1/{split}.parquet") for split in ("train", "test")}
    assert after["train"] != tagged("train")
    shown: dict[str, Any] = {}

    def fit(self: MlpInversion, public: Public, own: Pairs, seed: int) -> Inverter:
        shown.update(own=list(own.words), own_released=list(own.released.words), seed=seed)

        def words(copies: Sequence[Release]) -> Texts:
            shown["victims"] = [list(text) for text in copies[0].words]
            victims: Texts = shown["victims"]
            return victims

        return Inverter(words)

    def guesses(
        self: AttributeMlp,
        table: EmbeddingTable,
        own: Release,
        values: Values,
        victims: Release,
        seed: int,
    ) -> dict[str, list[str]]:
        shown.update(own=own.words, values=dict(values), victims=victims.words, seed=seed)
        return {"author": tagged("test", "attribute_author")}

    monkeypatch.setattr(MlpInversion, "fit", fit)
    invert.main("mlp-words", "mine", "pct2t", "3")
    last = files.read_json("data/private/mine/pct2t-3/statement.json")["seeds"] - 1
    seed = shown.pop("seed") - last
    own = {"own": tagged("train"), "own_released": after["train"]}
    assert shown == own | {"victims": after["test"]}
    shown.clear()
    monkeypatch.setattr(AttributeMlp, "guesses", guesses)
    infer.main("mlp", "mine", "pct2t", "3")
    known = {"values": {"author": tagged("train", "attribute_author")}, "seed": seed + last}
    assert shown == known | {"own": after["train"], "victims": after["test"]}


@pytest.fixture
def misled(workspace: Workspace, table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tagged texts and two copies of a release, whose words tell who wrote a training text.

    Of ten authors of six test texts each they do of six, of five in the other copy, and mislead of
    the others.
    """
    root = workspace(authors=["user"])
    monkeypatch.setenv("RAPT_HOME", str(root))
    (root / "models/tables").mkdir(parents=True)
    (root / "models/tables/tiny").symlink_to(table.folder)
    release = root / "data/private/mine/t2t-3"
    files.write_json(release / "statement.json", {"embedding": "tiny", "protection": "d_X-privacy"})
    for split in ("train", "test"):
        authors = np.repeat(np.arange(10), 6)
        mine = authors % 2 == 0
        columns = {"attribute_author": np.where(mine, "me", "you"), "author": authors}
        columns["example_id"] = np.array([f"{split}-{n}" for n in range(60)])
        files.write_parquet(root / f"data/tagged/mine/{split}.parquet", pa.table(columns))
        for k in range(2):
            told = mine ^ (authors >= 6 - k) if split == "test" else mine
            words = [["nouna" if one else "nounb"] for one in told]
            files.write_parquet(release / f"seed-{k}/{split}.parquet", pa.table({"words": words}))
    return root


def test_a_cell_s_interval_is_over_authors_where_they_are_known(misled: Path) -> None:
    """As sure as ten texts would be, where without the authors it is as sure as sixty are."""
    path = misled / "data/tagged/mine/test.parquet"
    for each, drop in ((1, []), (6, ["author"])):
        files.write_parquet(path, files.read_parquet(path).drop_columns(drop))
        infer.main("authorship", "mine", "t2t", "3")
        found = cell("infer", "authorship-mine-t2t-3")
        assert found["counts"] == {"train": 60, "test": 60}
        alone = np.repeat(np.arange(10), each)
        kept = files.read_parquet("reports/predictions/infer/authorship-mine-t2t-3.parquet")
        assert len(kept) == 2 * len(alone) and sum(kept["counted"].to_pylist()) == 2 * 60
        assert sum(kept["right"].to_pylist()) == 36 + 30
        bounds = bounds_of([{"author": alone < 6}, {"author": alone < 5}], None)
        for name, mean in (("accuracy_author", 0.55), ("empirical_privacy_author", 0.45)):
            metric = found["metrics"][name]
            assert metric["mean"] == pytest.approx(mean)
            assert (metric["low"], metric["high"]) == pytest.approx(bounds[name])


def test_an_attribute_of_one_value_teaches_nothing(misled: Path) -> None:
    path = misled / "data/tagged/mine/train.parquet"
    rows = files.read_parquet(path)
    files.write_parquet(path, rows.filter(pc.equal(rows["attribute_author"], "me")))
    line = r"^tasks.mine.attributes.author: got one value .*, expected two at least\.$"
    with pytest.raises(RaptError, match=line):
        infer.main("authorship", "mine", "t2t", "3")


def test_an_attacker_privatizes_own_texts_anew_by_the_release_s_mechanism(
    movies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Release] = []

    def noted(self: Authorship, table: EmbeddingTable, own: Release, *rest: object) -> dict:
        given.append(own)
        raise RaptError("seen")

    monkeypatch.setattr(Authorship, "guesses", noted)
    with pytest.raises(RaptError, match="seen"):
        infer.main("authorship", "movies", "rapt", "2")
    own = given[0]
    assert own.anew
    draws = ((0, 1), (0, 1), (0, 2), (1, 1))
    made = [np.array(own.anew(*draw).words) for draw in draws]
    texts = np.array(column("data/tagged/movies/train.parquet"))
    np.testing.assert_array_equal(made[0], made[1])
    copies = [np.array(own.words), *made[1:]]
    nouns, others = np.isin(texts, NOUNS), np.isin(texts, OTHERS)
    kept = [(copy == texts)[nouns].mean() for copy in copies]
    for one in range(len(copies)):
        for other in range(one):
            np.testing.assert_array_equal(copies[one][others], copies[other][others])
            assert np.isin(copies[other][nouns], NOUNS).all()
            assert (copies[one] != copies[other])[nouns].any()
            # Of the same mechanism: five standard deviations.
            assert abs(kept[one] - kept[other]) < 5 * np.sqrt(0.5 / nouns.sum())


def of_spacy(rows: pa.Table, package: str) -> Texts:
    """In place of spaCy: "good" is a person, and nothing else."""
    texts = rows["words"].to_pylist()
    return [["B-PER" if word == "good" else "O" for word in text] for text in texts]


@pytest.fixture
def attacked(workspace: Workspace, backbone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tagged texts, and releases of them: the words themselves, and with "bad" for "good"."""
    root = workspace()
    monkeypatch.setenv("RAPT_HOME", str(root))
    for stage in (recognizer, recognize):
        monkeypatch.setattr(stage, "entities", of_spacy)
    with edited(root / "params.yaml") as params:
        tiny = {"model": str(backbone), "sha256": None, "learning_rate": 0.01, "max_tokens": 16}
        params["attacks"]["ner"] |= tiny
    rng = np.random.default_rng(0)
    for split, count in (("train", 100), ("test", 30)):
        words = [[str(w) for w in rng.choice(["good", "bad", "film"], 4)] for _ in range(count)]
        write_tagged("mine", split, words)
    # Of η 3 the second seed replaces nothing.
    for eta, shown in (("inf", ("good", "good")), ("3", ("bad", "good"))):
        release = root / f"data/private/mine/t2t-{eta}"
        for k, word in enumerate(shown):
            released = [[word if w == "good" else w for w in text] for text in words]
            files.write_parquet(release / f"seed-{k}/test.parquet", pa.table({"words": released}))
        protection = "unprotected" if eta == "inf" else "d_X-privacy"
        files.write_json(
            release / "statement.json", {"embedding": "minilm", "protection": protection}
        )
    return root


def test_a_recognizer_of_clean_text_makes_a_cell_of_each_release(
    attacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[Any] = []
    fitted = Recognizer.fitted

    def noted(how: Ner, texts: Texts, tags: Texts, seed: int) -> Recognizer:
        learnt.append((texts, tags))
        return fitted(how, texts, tags, seed)

    monkeypatch.setattr(Recognizer, "fitted", noted)
    recognizer.main("ner", "mine")
    own = files.read_parquet("data/tagged/mine/train.parquet")
    assert learnt == [(own["words"].to_pylist(), of_spacy(own, "any"))]
    folder = attacked / "models/attackers/ner-mine"
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    entities = sum(text.count("good") for text in tagged("test"))
    for eta, protection, f1 in (("inf", "unprotected", [1, 1]), ("3", "d_X-privacy", [0, 1])):
        recognize.main("ner", "mine", "t2t", eta)
        found = cell("recognize", f"ner-mine-t2t-{eta}")
        assert (found["kind"], found["protection"]) == ("recognize", protection)
        assert found["factors"]["embedding"] == "minilm"
        assert found["counts"] == {"texts": 30, "entities": entities}
        assert [seed["metrics"]["f1"] for seed in found["seeds"]] == f1
        private = found["metrics"]["empirical_privacy"]
        assert (private["mean"], private["n"]) == (1 - sum(f1) / 2, 2)
        assert (private["sd"] == 0) == (eta == "inf")
        # All of 30 texts leaves room for another one.
        assert private["high"] - private["low"] > 0.1
        assert eta != "inf" or private["high"] - private["low"] < 0.2
        assert found["baselines"]["majority"] == 2 * entities / (4 * 30 + entities)


def test_a_release_is_linked_to_its_original_as_often_as_its_words_are_kept(small: Path) -> None:
    """At η = inf each is found, as far as texts differ; the number of words alone tells less."""
    for method, eta in (("t2t", "3"), ("t2t", "inf")):
        privatize.main("mine", method, eta, "minilm", Path(f"data/private/mine/{method}-{eta}"))
        link.main("linkage", "mine", method, eta)
    noisy, whole = (cell("link", f"linkage-mine-t2t-{eta}") for eta in ("3", "inf"))
    texts = list(map(tuple, tagged("test")))
    assert noisy["counts"] == {"candidates": len(texts), "own": len(tagged("train"))}
    found = [one["metrics"]["linked"]["mean"] for one in (noisy, whole)]
    assert found[1] == pytest.approx(np.mean([1 / texts.count(text) for text in texts]))
    lengths = list(map(len, texts))
    blind = np.mean([1 / lengths.count(size) for size in lengths])
    assert noisy["baselines"]["linked"] == pytest.approx(blind) and blind <= found[0] < found[1]
