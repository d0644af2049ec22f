"""What holds for every attack: a class is tested by being registered."""

import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from scipy.stats import binom, binomtest
from threadpoolctl import threadpool_limits

from rapt.attacks import ATTACKS, AnyAttack
from rapt.attacks.base import (
    Attack,
    Inference,
    Inversion,
    Linkage,
    Membership,
    Pairs,
    Public,
    Release,
)
from rapt.attacks.entities import Ner
from rapt.attacks.membership_scores import Ranking
from rapt.attacks.recognizer import Recognizer
from rapt.attacks.show import as_json, print_attacks
from rapt.audit.cases import small_table
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.attacks.conftest import (
    CHANNELS,
    FALSE_ALARM,
    NONE,
    PRIOR,
    MakePublic,
    Shares,
    accuracy,
    drawn,
    made,
    of_kind,
    right,
    streamed,
    two_words,
    writers,
)
from tests.conftest import ROOT

Make = Callable[..., Any]
LISTS = {
    Inference: "inferences",
    Linkage: "linkages",
    Ner: "recognitions",
    Membership: "memberships",
}
PAGE = (ROOT / "docs/attacks.md").read_text(encoding="utf-8")
# Its model is random here, so that it guesses by chance: test_inversion.py teaches it.
UNTAUGHT = {"masked-token"}


def test_validating_params_loads_none_of_what_attacks_compute_with() -> None:
    heavy = ("pyarrow", "scipy", "sklearn", "tokenizers", "torch")
    code = f"import sys, rapt.params; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ATTACKS)
def test_its_parameters_are_those_of_params_yaml(name: str) -> None:
    how, section = made(name), TypeAdapter(AnyAttack)
    assert section.validate_python(section.dump_python(how, mode="json")) == how
    schema = files.read_json(ROOT / "params.schema.json")["$defs"][type(how).__name__]
    assert schema["properties"].keys() == type(how).model_fields.keys()
    with pytest.raises(ValidationError, match="nonsense"):
        made(name, nonsense=1)


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_listed_with_what_its_attacker_knows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = ATTACKS[name]
    (found,) = (each for each in as_json() if each["name"] == name)
    assert kind.attacker_knowledge and kind.source
    assert (found["source"], found["knows"]) == (kind.source, kind.attacker_knowledge)
    assert found["parameters"].keys() == kind.model_fields.keys() - {"type"}
    assert all(found["parameters"].values())
    lists = [of for base, of in LISTS.items() if issubclass(kind, base)] or ["inversions"]
    if getattr(kind, "reads_channel", False):
        lists = ["channel_inversions"]
    assert found["listed_in"] == f"sweep.{lists[0]}"
    assert f"| `{name}` | `{lists[0]}` | " in PAGE
    print_attacks()
    assert name in capsys.readouterr().out


def test_every_attack_is_of_a_kind_that_is_tested_here() -> None:
    kinds: list[type[Attack]] = [Inversion, Inference, Linkage, Membership, Ner]
    assert sorted(chain.from_iterable(map(of_kind, kinds))) == sorted(ATTACKS)


@pytest.fixture(scope="module")
def mechanism(table: EmbeddingTable) -> tuple[Public, Pairs]:
    """A mechanism that keeps most words, public texts, and the attacker's own pairs."""
    privatizer = Privatizer(table=table, mechanism=T2T(), eta=8.0)
    rng = np.random.default_rng(0)
    texts, own = (rng.choice(table.words[:6], (300, 6)).tolist() for _ in range(2))
    channel = estimate(privatizer, range(len(table.words)), 200, 0)
    pairs = Pairs(own, Release(list(privatizer.privatize(streamed(own, 1)))))
    return Public.of(privatizer, channel, streamed(texts, 0)), pairs


@pytest.mark.parametrize("name", of_kind(Inversion))
def test_an_inversion_guesses_each_word_and_beats_guessing(
    attack: Make, mechanism: tuple[Public, Pairs], name: str
) -> None:
    """Equal seeds give equal guesses, whatever the cores; the rarest of six is no more frequent."""
    known, own = mechanism
    how: Inversion = attack(name)
    assert known.privatizer
    texts = np.random.default_rng(1).choice(known.table.words[:6], (60, 6)).tolist()
    copies = [
        Release(
            [[], ["unseen", "the"], *of_words(known.privatizer).privatize(streamed(texts, seed))]
        )
        for seed in range(10, 10 + how.takes)
    ]
    guesses = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            guesses.append(how.fit(known, own, 3).words(copies))
    assert guesses[0] == guesses[1]
    assert [len(text) for text in guesses[0]] == [len(text) for text in copies[0].words]
    hits = int((np.array(guesses[0][2:]) == np.array(texts)).sum())
    if name not in UNTAUGHT:
        assert hits / 360 > 0.5
    single = how.takes == 1
    assert how.given is None if single else how.given == f"{how.takes} releases"
    assert how.reads == (["any"] if "public_text" in ATTACKS[name].model_fields else ())


def best(prior: Shares, matrix: Shares) -> float:
    """Of the best attacker: Σ_y max_w P(y|w)·π(w)."""
    return float((matrix * prior[:, None]).max(axis=0).sum())


def kept(prior: Shares, matrix: Shares) -> float:
    """Of the words that stay: Σ_w π(w)·P(w|w)."""
    return float(prior @ matrix.diagonal())


def agreed(prior: Shares, matrix: Shares) -> float:
    """Of three copies the mean is nearest to what two agree on: P(w stays at least twice)."""
    return float(prior @ binom.sf(1, 3, matrix.diagonal()))


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("nearest-neighbour", {}, kept),
        ("averaging", {"copies": 3}, agreed),
        ("bayesian", {"prior": "public"}, best),
        ("bayesian", {"prior": "release"}, best),
    ],
)
def test_an_inversion_recovers_as_many_words_as_is_known(
    public: MakePublic, channel: str, name: str, settings: dict[str, Any], expected: Any
) -> None:
    """Tested exactly. The table's π of the two words is the victims'."""
    matrix, n = np.array(CHANNELS[channel]), 4000
    known = public(matrix)
    words = drawn(known, n, 0)
    share = min(1.0, expected(PRIOR, matrix))
    found = right(made(name, **settings), known, words)
    assert binomtest(found, n, share).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["mlp-inversion", "autoencoder"])
@pytest.mark.parametrize(
    "matrix", [*CHANNELS.values(), [[0.0, 0.2, 0.8], [0.9, 0.1, 0.0]]], ids=[*CHANNELS, "another"]
)
def test_what_learns_from_pairs_reaches_the_best_success_that_there_is(
    name: str, matrix: list[list[float]]
) -> None:
    """Of words that are equally frequent, and a third word that is not between the first two.

    An autoencoder learns the mean of two words, which is nearest to the more likely one.
    """
    vectors = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    table = small_table(["nouna", "nounb", "verba"], vectors, np.ones(3))
    plane, half = Public(table, np.zeros(3, np.int64), None), np.full(2, 0.5)
    own, victims = (two_words(np.array(matrix), seed) for seed in (0, 1))
    guesses = made(name).fit(plane, own, 0).words([victims.released])
    found = sum(guess == text for guess, text in zip(guesses, victims.words, strict=True))
    share = min(1.0, best(half, np.array(matrix)))
    assert binomtest(found, len(guesses), share).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", of_kind(Inference))
def test_an_inference_reaches_the_optimum_of_two_known_styles(
    attack: Make, table: EmbeddingTable, name: str
) -> None:
    """Two equal terms tell with p² / (p² + (1 − p)²), two different ones nothing: p in all.

    Tested exactly. Where authors like both words alike, no text says whose it is.
    """
    how: Inference = attack(name)
    for likes in (1.0, 0.8, 0.5):
        own, victims = (writers(500, likes, seed) for seed in (0, 1))
        found = accuracy(how, table, own, victims)
        assert binomtest(round(500 * found), 500, likes).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", of_kind(Inference))
def test_an_inference_guesses_each_attribute_the_same_by_one_seed(
    attack: Make, table: EmbeddingTable, name: str
) -> None:
    how: Inference = attack(name)
    own, victims = writers(60, 0.8, 0), writers(20, 0.8, 1)
    known = {"author": own.values, "age": own.values[::-1]}
    guesses = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            guesses.append(how.guesses(table, own.release, known, victims.release, 3))
    assert guesses[0] == guesses[1]
    assert guesses[0].keys() == known.keys()
    for values in guesses[0].values():
        assert len(values) == 20 and set(values) <= set(own.values)


@pytest.mark.parametrize("name", of_kind(Membership))
@pytest.mark.parametrize("learnt", [0.0, 2.0])
def test_membership_is_told_where_models_are_surer_of_members_alone(
    name: str, learnt: float
) -> None:
    """Once in a million where nothing is learnt: of 1,000 members and others, 0.07."""
    labels = np.random.default_rng(0).integers(2, size=2000)
    is_member = np.arange(2000) < 1000

    def tuned(seed: int, tuned_on: NDArray[np.bool_]) -> NDArray[np.float64]:
        noise = np.random.default_rng(seed).normal(size=tuned_on.shape)
        own = 1 / (1 + np.exp(-noise - learnt * tuned_on))
        is_own = np.arange(2) == labels[:, None]
        return np.where(is_own, own[..., None], 1 - own[..., None])

    scores = [
        made(name).fit(labels, lambda on: tuned(1, on), 0)(tuned(2, is_member)) for _ in range(2)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert scores[0].shape == labels.shape
    auc = Ranking.of(scores[0][is_member], scores[0][~is_member]).metrics()["auc"]
    assert auc > 0.75 if learnt else abs(auc - 0.5) < 0.07


@pytest.mark.parametrize("name", [n for n in ATTACKS if "model" in ATTACKS[n].model_fields])
def test_a_model_that_is_not_there_is_one_line(
    mechanism: tuple[Public, Pairs], table: EmbeddingTable, name: str
) -> None:
    how, own = made(name, model="nowhere"), writers(4, 1.0, 0)
    with pytest.raises(RaptError, match=r"^model: got 'nowhere', expected a folder that is there"):
        if isinstance(how, Inversion):
            how.fit(mechanism[0], NONE, 0).words([])
        elif isinstance(how, Inference):
            how.guesses(table, own.release, {"author": own.values}, own.release, 0)
        else:
            Recognizer.fitted(how, [["good"]], [["O"]], 0)


TEXTS = [["nouna", "the"], ["nouna"]]


def test_a_split_is_read_with_its_vectors_if_it_has_any(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    column = files.column_of_vectors(vectors, np.array([2, 1]))
    for columns in ({"words": TEXTS}, {"words": TEXTS, "vectors": column}):
        files.write_parquet(path, pa.table(columns))
        release = Release.read(path)
        assert release.words == TEXTS
        assert (release.vectors is None) == ("vectors" not in columns)
    np.testing.assert_array_equal(release.vectors, vectors)


def test_equal_words_share_a_vector_and_released_vectors_are_taken(table: EmbeddingTable) -> None:
    vectors, rows = Release(TEXTS).seen(table)
    np.testing.assert_array_equal(rows, [0, 1, 0])
    np.testing.assert_array_equal(vectors, table.embed(["nouna", "the"]))
    own = np.arange(24, dtype=np.float32).reshape(3, 8)
    vectors, rows = Release(TEXTS, own).seen(table)
    assert vectors is own
    np.testing.assert_array_equal(rows, [0, 1, 2])
    np.testing.assert_array_equal(Release(TEXTS, own).only([1]).vectors, own[2:])


def test_groups_are_public(table: EmbeddingTable) -> None:
    known = Public.of(Privatizer(table=table, mechanism=T2T(), eta=3.0), None)
    assert known.table is table
    assert known.groups.shape == (len(table.words),)
