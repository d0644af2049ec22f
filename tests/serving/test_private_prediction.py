"""Private prediction: the laws' known answers, noise that nobody can repeat, and the server."""

import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from rapt.serving import private_prediction
from rapt.serving.budget import Budget
from rapt.serving.client import Remote
from rapt.serving.model import Adapted
from rapt.serving.private_prediction import (
    PrivatePrediction,
    Teachers,
    checked,
    drawn_token,
    mixed,
    mixture,
    noisy_choice,
    teachers,
    votes,
)
from rapt.serving.protocol import Text
from rapt.tuning.config import Decoding
from rapt.tuning.inference_spec import Contract
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.serving.conftest import PLAIN, Served, tuned, write_gpt2, write_release
from tests.serving.test_predict import Rapt
from tests.serving.test_predict import rapt as rapt
from tests.serving.test_server import ask

TEXT = Text(words=["good", "film"], segment=[0, 0], plain=PLAIN)
DRAWS = 4000


def asked(epsilon: float = 8, queries: int = 10, delta: float = 1e-5) -> PrivatePrediction:
    return PrivatePrediction(epsilon=epsilon, queries=queries, delta=delta)


@pytest.mark.parametrize(("epsilon", "noise"), [(1, 3.7306), (5, 0.8919), (8, 0.6002)])
def test_one_query_has_the_noise_of_one_gaussian(epsilon: float, noise: float) -> None:
    """Of the sensitivity √2, at δ 1e-5; two teachers' votes move from (2, 0) to (1, 1)."""
    moved = float(np.linalg.norm(np.subtract((2, 0), (1, 1))))
    assert moved == math.sqrt(2)
    assert votes(asked(epsilon, queries=1)).noise == pytest.approx(moved * noise, rel=1e-4)


@given(epsilon=st.floats(0.01, 50), queries=st.integers(1, 10_000))
def test_queries_are_as_many_gaussians(epsilon: float, queries: int) -> None:
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) of μ² = 2T/σ², which the budget adds up."""
    law = votes(asked(epsilon, queries))
    assert law.noise
    mu = math.sqrt(2 * queries) / law.noise
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert delta == pytest.approx(1e-5, rel=1e-3)
    assert law.most == pytest.approx(mu**2) == pytest.approx(queries * law.cost)


@pytest.mark.parametrize(("loss", "weight"), [(10.8, 0.5), (8.6, 0.1), (6.2, 0.01)])
def test_one_models_token_costs_what_the_mixture_says(loss: float, weight: float) -> None:
    law = mixture(asked(loss, queries=1), tokens=1, teachers=1, vocabulary=49_152)
    assert law.weight == pytest.approx(weight, rel=0.05)
    assert law.delta == 0


@given(
    loss=st.floats(0.01, 12),
    sets=st.integers(1, 4).flatmap(
        lambda k: st.lists(
            st.lists(st.floats(0, 1), min_size=5, max_size=5).filter(any),
            min_size=k + 1,
            max_size=k + 1,
        )
    ),
)
def test_no_teacher_moves_a_token_by_more(loss: float, sets: list[list[float]]) -> None:
    """The last distribution takes the first teacher's place. The bound is met at the extremes."""
    every = np.array(sets) / np.sum(sets, axis=1, keepdims=True)
    one, other = every[:-1], every[[-1, *range(1, len(every) - 1)]]
    law = mixture(asked(loss * 3 * 7, queries=7), tokens=3, teachers=len(one), vocabulary=5)
    assert law.weight is not None
    moved = np.abs(np.log(mixed(one, law.weight) / mixed(other, law.weight)))
    assert moved.max() <= loss * (1 + 1e-9)
    certain, impossible = np.eye(5)[[0] + [1] * (len(one) - 1)], np.eye(5)[[1] * len(one)]
    most = np.log(mixed(certain, law.weight)[0] / mixed(impossible, law.weight)[0])
    assert most == pytest.approx(loss)


def test_the_choice_has_the_votes_law() -> None:
    """The share of wins is that of a difference of Gaussians; a false alarm is 1 of 10⁶."""
    found = [noisy_choice(np.array([3.0, 1.0]), 2.0) for _ in range(DRAWS)]
    expected = norm.cdf(2 / (2 * math.sqrt(2)))
    assert np.mean(np.equal(found, 0)) == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(DRAWS))


def test_a_token_has_the_mixtures_law() -> None:
    each = np.array([[0.7, 0.3, 0.0], [0.1, 0.9, 0.0]])
    found = [drawn_token(each, 0.5) for _ in range(DRAWS)]
    shares = np.bincount(found, minlength=3) / DRAWS
    assert shares == pytest.approx([11 / 30, 14 / 30, 1 / 6], abs=5 * 0.5 / math.sqrt(DRAWS))


class Stub:
    """A teacher that always has one vote."""

    def __init__(self, contract: Contract, vote: int) -> None:
        self.contract, self.vote = contract, vote

    def answer(self, texts: list[Text]) -> list[list[float]]:
        one = [0.9 if place == self.vote else 0.1 for place in range(2)]
        return [one for _ in texts]


def voting(
    contract: Contract, path: Path, *given: int, epsilon: float = 1e6, queries: int = 10
) -> Teachers:
    law = votes(asked(epsilon, queries))
    stubs: list[Any] = [Stub(contract, vote) for vote in given]
    return Teachers(stubs, law, asked(epsilon, queries), Budget(path, "a", law.cost, law.most))


def test_the_answer_is_the_class_alone_and_is_paid_for_before(
    model: Adapted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget"
    provider = voting(model.contract, path, 1, 0, 1)
    before: list[int] = []
    monkeypatch.setattr(
        Stub,
        "answer",
        lambda self, texts: before.append(path.read_text().count("cost")) or [[0.2, 0.8]] * 2,
    )
    assert provider.answer([TEXT] * 2) == [[0.0, 1.0]] * 2
    assert before == [2] * 3
    stated = provider.contract.prediction
    assert stated and (stated.queries, stated.left, stated.weight) == (10, 8, None)
    with pytest.raises(RaptError, match=r"texts.0.plain: got 0"):  # which costs nothing
        provider.answer([TEXT.model_copy(update={"plain": []})])
    assert provider.contract.prediction == stated


def test_no_seed_repeats_the_noise(model: Adapted, tmp_path: Path) -> None:
    """64 answers are nearly fair coins: two rows of them are alike once in 10^18 times."""
    answers = []
    for k in range(2):
        random.seed(0)
        np.random.seed(0)
        provider = voting(model.contract, tmp_path / str(k), 1, 0, 1, epsilon=0.1, queries=64)
        answers.append([provider.answer([TEXT])[0] for _ in range(64)])
    assert answers[0] != answers[1]


@pytest.fixture
def served(model: Adapted, tmp_path: Path) -> Iterator[Served]:
    with Served(voting(model.contract, tmp_path / "budget", 1, 0, 1, queries=3)) as served:
        yield served


def test_a_server_refuses_when_all_is_spent(served: Served) -> None:
    remote = Remote(served.url)
    assert remote.contract.prediction and remote.contract.prediction.left == 3
    assert remote.answer([TEXT, TEXT]) == [[0.0, 1.0]] * 2
    with pytest.raises(RaptError, match=r"got status 403 \(budget: got 2 queries with 1 left"):
        remote.answer([TEXT, TEXT])
    remote.answer([TEXT])
    status, error = ask(served, "POST", "/predict", json.dumps({"texts": [dict(TEXT)]}).encode())
    assert status == 403
    assert error["error"].startswith("budget: got 1 queries with 0 left, expected no more.")
    assert ask(served, "GET", "/")[1]["prediction"]["left"] == 0


def test_predict_says_what_is_left(served: Served, rapt: Rapt) -> None:
    done = rapt("--adapter", served.url, "good film", "--eta", "inf")
    assert (done.error, done.stdout) == ("", "yes\t1.000\n")
    assert "private prediction: 3 of 3 queries are left, and each text takes one" in done.stderr
    done = rapt("--adapter", served.url, "good film", "--eta", "inf", "--combine", ".")
    assert done.error.endswith("expected none: it tells no probabilities.")


SERVER = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from rapt.serving import loopback
from rapt.serving.budget import Budget
from rapt.serving.private_prediction import PrivatePrediction, Teachers, votes
from rapt.serving.protocol import contract_of
from rapt.serving.server import application

class Hangs:
    contract = contract_of(Path({adapter!r}))
    def answer(self, texts):
        print("asked", flush=True)
        time.sleep(60)

asked = PrivatePrediction(epsilon=3, queries=10)
law = votes(asked)
budget = Budget(Path({budget!r}), "a", law.cost, law.most)
with loopback.listening(0) as listener:
    print(listener.getsockname()[1], flush=True)
    loopback.run(application(Teachers([Hangs(), Hangs()], law, asked, budget)), listener)
"""


@pytest.mark.slow
def test_kill_9_between_writing_and_answering_gives_nothing_back(
    adapter: Path, tmp_path: Path
) -> None:
    path = tmp_path / "budget"
    code = SERVER.format(root=str(ROOT), adapter=str(adapter), budget=str(path))
    for left in (8, 6):
        server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert server.stdout
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        heard: list[object] = []

        def query(url: str = url, heard: list[object] = heard) -> None:
            try:
                heard.append(Remote(url).answer([TEXT, TEXT]))
            except RaptError as error:
                heard.append(error)

        client = Thread(target=query)
        client.start()
        assert server.stdout.readline() == "asked\n"
        server.kill()
        client.join()
        server.communicate()
        assert isinstance(heard[0], RaptError)
        law = votes(asked(3))
        assert Budget(path, "a", law.cost, law.most).left() == left


@pytest.fixture(scope="session")
def cell(adapter: Path, backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The adapters of two teachers."""
    release = tmp_path_factory.mktemp("teachers") / "release"
    shutil.copytree(adapter.parents[1] / "release", release)
    shutil.copytree(release / "seed-0", release / "seed-1")
    for k in range(2):
        seed = tuned(release, backbone, k=k, shards=2)
    return seed.parent


def test_teachers_are_loaded_and_share_what_is_frozen(cell: Path) -> None:
    provider = teachers(cell, asked(delta=1e-3))
    one, other = (teacher._model for teacher in provider._teachers)
    known = {name: weight.data_ptr() for name, weight in one.named_parameters()}
    shared = [known[name] == weight.data_ptr() for name, weight in other.named_parameters()]
    assert any(shared) and not all(shared)
    (answer,) = provider.answer([TEXT])
    assert sorted(answer) == [0.0, 1.0]
    assert provider.contract.shard is None
    # Their budget lies beside them, and knows them again.
    assert (cell.parent / "cell.budget.jsonl").read_text().count("cost") == 1
    left = teachers(cell, asked(delta=1e-3)).contract.prediction
    assert left and left.left == 9


def edited(cell: Path, folder: Path, seed: int, **changes: Any) -> Path:
    """A copy of a cell with another contract of a seed."""
    shutil.copytree(cell, folder)
    path = folder / f"seed-{seed}/rapt.json"
    files.write_json(path, files.read_json(path) | changes)
    return folder


def test_what_are_no_teachers_is_one_line(cell: Path, adapter: Path, tmp_path: Path) -> None:
    def line(folder: Path, wanted: PrivatePrediction | None = None) -> str:
        with pytest.raises(RaptError) as error:
            teachers(folder, wanted or asked(delta=1e-3))
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "with 1 tuned seeds, expected a cell's folder" in line(adapter.parent)
    assert "with 0 tuned seeds, expected a cell's folder" in line(adapter)
    shutil.copytree(adapter.parent, tmp_path / "all")
    shutil.copytree(adapter, tmp_path / "all/seed-1")
    shard = files.read_json(cell / "seed-1/rapt.json")["shard"]
    none = [
        tmp_path / "all",
        edited(cell, tmp_path / "other cell", 1, shard=shard | {"cell": "other"}),
        edited(cell, tmp_path / "twice one", 1, shard=shard | {"number": 0}),
        edited(cell, tmp_path / "of three", 1, shard=shard | {"of": 3}),
        edited(cell, tmp_path / "other words", 1, plain=[["film"]]),
    ]
    for folder in none:
        assert "that are not all teachers of one cell" in line(folder), folder
    denoised = edited(cell, tmp_path / "denoised", 1, denoiser="posterior-mean")
    path = denoised / "seed-0/rapt.json"
    files.write_json(path, files.read_json(path) | {"denoiser": "posterior-mean"})
    assert "with the denoiser posterior-mean" in line(denoised)
    assert line(cell, asked(delta=0.2)).startswith("delta: got 0.2 for 8 texts, expected less than")
    nowhere = asked(delta=1e-3).model_copy(update={"ledger": tmp_path / "no/file"})
    assert line(cell, nowhere).startswith("ledger: got '")
    inside = asked(delta=1e-3).model_copy(update={"ledger": cell / "budget.jsonl"})
    assert "inside the adapter's folder, expected a file beside it" in line(cell, inside)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"epsilon": 0}, "epsilon: got 0, expected a number greater than 0."),
        (
            {"epsilon": math.inf},
            "epsilon: got inf, expected a number less than or equal to 1000000.",
        ),
        ({"epsilon": 3, "queries": 0}, "queries: got 0, expected a number greater than 0."),
        ({"epsilon": 3, "queries": None}, "queries: got None, expected a valid integer."),
        ({"epsilon": 3, "delta": 1.0}, "delta: got 1.0, expected a number less than 1."),
    ],
)
def test_a_wrong_value_is_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(RaptError) as error:
        checked({"queries": 1} | given)
    assert str(error.value) == line


@pytest.mark.slow
def test_teachers_write_together(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gpt2(tmp_path / "gpt2")
    more = {"kind": "generate", "protect": "entities", "labels": None}
    rows = {
        "words": [["film", "plot", "film", "."]] * 8,
        "segment": [[0, 0, 1, 1]] * 8,
        "space_after": [[True] * 4] * 8,
    }
    few, release = Decoding(beams=1, max_new_tokens=5), tmp_path / "release"
    write_release(release, folder, rows, **more)
    shutil.copytree(release / "seed-0", release / "seed-1")
    for k in range(2):
        seed = tuned(release, tmp_path / "gpt2", 20, 40, few, k=k, shards=2)
    text = Text(words=["film", "plot"], segment=[0, 0], plain=[], space_after=[True, True])
    provider = teachers(seed.parent, asked(8, queries=10, delta=1e-3))
    provider.answer([text])
    seen: list[float] = []

    def likeliest(each: NDArray[np.float64], weight: float) -> int:
        assert each.sum(axis=1) == pytest.approx([1, 1])
        seen.append(weight)
        return int(each.mean(axis=0).argmax())

    monkeypatch.setattr(private_prediction, "drawn_token", likeliest)
    assert provider.answer([text]) == Adapted(seed).answer([text])
    stated = provider.contract.prediction
    assert stated and (stated.noise, stated.delta, stated.left) == (None, 0, 8)
    assert seen == [stated.weight] * len(seen) != []
    # Of ε 8 ten answers have 0.8 each, and each of five tokens 0.16.
    assert stated.weight and 0 < stated.weight < 1e-2
    vocabulary = provider._teachers[0].vocabulary
    odds = stated.weight * vocabulary / (2 * (1 - stated.weight))
    assert math.log1p(odds) == pytest.approx(0.16)
