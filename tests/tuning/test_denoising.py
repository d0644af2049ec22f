"""Training on denoised words: vectors in closed form, draws by their law, and runs end to end."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import binomtest

from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.config import DenoiserType, Denoising, PosteriorTarget, Run
from rapt.tuning.denoising import WordSampler, reading, word_embeddings
from rapt.tuning.inputs import NO_PLAIN, InputVectors, collate, read_split, tokenized
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.model import load_backbone
from rapt.tuning.train import train_seed
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Full, PrefixTuning, PromptTuning
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.families import FAMILIES, make
from tests.tuning.test_checkpoints import steps_after_a_stop
from tests.tuning.tokenizers import PIECES

WORDS = ["good", "bad", "film", "plot", "very", "so", "likely"]  # a token each in the tiny BERT
FALSE_ALARM = 1e-6

Denoised = Callable[..., Run]


def mixed(size: int) -> NDArray[np.float64]:
    """A posterior that leaves each word half its own."""
    return 0.5 * np.eye(size) + 0.5 * np.roll(np.eye(size), 1, axis=1)


@pytest.fixture
def denoised(run: Run, tmp_path: Path) -> Denoised:
    """The run with its words denoised."""
    numbers = count()

    def make(
        posterior: NDArray[np.float64],
        words: Sequence[str] = WORDS,
        kind: DenoiserType = "posterior-mean",
        run: Run = run,
    ) -> Run:
        how = Denoising(kind, list(words)[: len(posterior)], list(words), csr_array(posterior))
        adapter = tmp_path / f"cell-{next(numbers)}/seed-0"
        if kind == "posterior-target":
            run = replace(run, reconstruction=PosteriorTarget(type=kind))
        return replace(run, denoising=how, adapter=adapter)

    return make


def embeddings(run: Run) -> torch.Tensor:
    return load_backbone(run.backbone)[0].get_input_embeddings().weight.detach()


def words_of(run: Run) -> InputVectors:
    assert run.denoising
    return reading(run.denoising, *load_backbone(run.backbone))[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_word_s_embedding_is_the_mean_of_its_pieces_inside_a_text(
    name: str, tmp_path: Path
) -> None:
    folder = make(name, tmp_path / name)
    model, tokenizer = load_backbone(folder)
    weights = model.get_input_embeddings().weight.detach()
    found = word_embeddings(weights, tokenizer, ["film", "unlikely"])
    for row, word in enumerate(("film", "unlikely")):
        columns = {"words": [["so", word, "very"]], "segment": [[0] * 3], "label": [0]}
        split = tokenized(columns, tokenizer, 20)
        own = [t for t, text in zip(split.tokens[0], split.text[0], strict=True) if text][1:-1]
        assert len(own) == (len(PIECES) if word == "unlikely" else 1)
        torch.testing.assert_close(found[row], weights[own].mean(0))


def test_the_batch_holds_the_closed_form(denoised: Denoised) -> None:
    """D(y) = 0.5·E(y) + 0.5·E(the next word), also for plain words; "unlikely" has three pieces."""
    words = [*WORDS, "unlikely"]
    run = denoised(mixed(len(words)), words)
    tokenizer, weights = load_tokenizer(run.backbone), embeddings(run)
    vocabulary = tokenizer.get_vocab()
    unlikely = [vocabulary[piece] for piece in ("un", "##like", "##ly")]
    own = {word: weights[vocabulary[word]] for word in WORDS}
    own["unlikely"] = weights[unlikely].mean(0)
    known = words_of(run)
    path = run.release / "seed-0/train.parquet"
    split = read_split(path, tokenizer, 16, known)
    texts = files.read_parquet(path).to_pydict()
    batch = collate(split, [0, 1, 2], 0)
    assert batch.vectors is not None
    for row in range(3):
        line = [*texts["plain"][row], *texts["words"][row]]
        assert (batch.tokens[row] < 0).sum() == len(line)  # "unlikely" takes one position, too
        assert (batch.plain[row] != NO_PLAIN).sum() == 3
        expected = [0.5 * own[w] + 0.5 * own[words[(words.index(w) + 1) % 8]] for w in line]
        torch.testing.assert_close(batch.vectors[row, 1:-1], torch.stack(expected))


def test_words_without_a_posterior_keep_their_tokens(denoised: Denoised) -> None:
    run = denoised(np.eye(2, len(WORDS)))  # of "good" and "bad" alone
    known = words_of(run)
    split = read_split(
        run.release / "seed-0/train.parquet", load_tokenizer(run.backbone), 16, known
    )
    assert {-1 - t for tokens in split.tokens for t in tokens if t < 0} == {0, 1}
    assert all(t >= 0 for t in split.tokens[0][1:-2])


@pytest.mark.parametrize(
    "tuner",
    [
        None,
        PrefixTuning(tokens=4, learning_rate=0.02),
        PromptTuning(tokens=4, learning_rate=0.02),
        Full(learning_rate=1e-30),
    ],
    ids=["lora", "prefix", "prompt", "full"],
)
def test_the_identity_changes_nothing_where_a_word_is_one_token(
    run: Run, denoised: Denoised, tuner: PrefixTuning | PromptTuning | Full | None
) -> None:
    """As at η = inf. Full fine-tuning is held still: its input embeddings would learn."""
    run = replace(run, tuner=tuner or run.tuner.model_copy(update={"dropout": 0.3}))
    expected = train_seed(run)
    result = train_seed(denoised(np.eye(len(WORDS)), run=run))
    assert result.metrics == expected.metrics
    for name, curve in expected.curves.items():
        assert result.curves[name] == pytest.approx(curve, rel=1e-5), name


@pytest.mark.parametrize("kind", ["posterior-mean", "posterior-sample"])
def test_it_learns_what_noise_has_blurred(denoised: Denoised, kind: DenoiserType) -> None:
    """Half of "good" is "bad": the class can be told all the same, as D keeps them apart."""
    posterior = np.eye(len(WORDS))
    posterior[:2, :2] = [[0.8, 0.2], [0.2, 0.8]]
    run = denoised(posterior, kind=kind)
    result = train_seed(replace(run, train=run.train.model_copy(update={"epochs": 10})))
    assert result.metrics["accuracy"] > 0.9


def test_a_head_learns_the_posterior_of_each_word(denoised: Denoised) -> None:
    """Its least mean loss is the posterior's entropy: log 2, as each word is half another."""
    run = denoised(mixed(len(WORDS)), kind="posterior-target")
    assert run.reconstruction
    longer = run.train.model_copy(update={"epochs": 20})
    mean = run.reconstruction.model_copy(update={"reduction": "mean"})
    result = train_seed(replace(run, train=longer, reconstruction=mean))
    losses = result.curves["reconstruction_loss"]
    assert losses[0] > 2 * np.log(2)
    assert np.log(2) < losses[-1] < 1.2 * np.log(2)
    assert "reconstruction_unseen" not in result.metrics
    texts = files.read_parquet(run.release / "seed-0/train.parquet").to_pydict()
    known = sum(w in WORDS for of in ("words", "plain") for text in texts[of] for w in text)
    once = run.train.model_copy(update={"epochs": 1, "batch_size": len(texts["label"])})
    sums = [
        train_seed(replace(run, train=once, reconstruction=how)).curves["reconstruction_loss"][0]
        for how in (run.reconstruction, mean)
    ]
    assert sums[0] == pytest.approx(sums[1] * known / len(texts["label"]), rel=1e-5)


def test_draws_follow_the_posterior() -> None:
    """Each of 7 × 7 shares is tested exactly, at 1e-6 / 49."""
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.full(7, 0.5), 7) * (rng.random((7, 7)) < 0.6) + 0.1 * np.eye(7)
    posterior /= posterior.sum(axis=1, keepdims=True)
    torch.manual_seed(0)
    sampler, draws = WordSampler(csr_array(posterior), torch.empty(7, 2)), 20_000
    for row in range(7):
        drawn = Counter(sampler.draw(torch.full((draws,), row)).tolist())
        for word, share in enumerate(posterior[row]):
            test = binomtest(drawn[word], draws, min(share, 1.0))
            assert test.pvalue > FALSE_ALARM / 49
            assert share > 0 or drawn[word] == 0


def test_the_ends_of_the_unit_interval_stay_in_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = WordSampler(csr_array(mixed(7)), torch.empty(7, 2))
    for end in (0.0, 1 - 2**-53, 1.0):
        monkeypatch.setattr(torch, "rand", lambda n, dtype, end=end: torch.full((n,), end))
        drawn = sampler.draw(torch.arange(7))
        assert (mixed(7)[np.arange(7), drawn.numpy()] > 0).all()


def test_each_step_draws_anew_and_the_test_split_is_read_by_the_mean(
    denoised: Denoised, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = denoised(mixed(len(WORDS)), kind="posterior-sample")
    seen: dict[int, set[tuple[int, ...]]] = {}
    draw = Trainer._drawn

    def noting(self, split, rows):  # type: ignore[no-untyped-def]
        drawn, places = draw(self, split, rows)
        for row, place in zip(rows, places, strict=True):
            seen.setdefault(row, set()).add(tuple(drawn.tokens[place]))
            assert len(drawn.vectors) == len(WORDS)
        return drawn, places

    monkeypatch.setattr(Trainer, "_drawn", noting)
    first = train_seed(run)
    assert np.mean([len(texts) for texts in seen.values()]) > 2  # of three epochs
    assert train_seed(run) == first
    mean = denoised(mixed(len(WORDS)))
    assert train_seed(mean).curves != first.curves


@pytest.mark.parametrize("kind", get_args(DenoiserType))
def test_a_stopped_run_ends_as_one_that_was_not(
    denoised: Denoised, monkeypatch: pytest.MonkeyPatch, kind: DenoiserType
) -> None:
    steps_after_a_stop(denoised(mixed(len(WORDS)), kind=kind), monkeypatch, 0, 17)


def test_another_posterior_is_another_run(run: Run, denoised: Denoised) -> None:
    runs = [
        run,
        denoised(np.eye(7)),
        denoised(mixed(7)),
        denoised(mixed(7), kind="posterior-sample"),
        denoised(mixed(7), kind="posterior-target"),
    ]
    assert len({Checkpoint(each, "cpu").path for each in runs}) == 5
    assert Checkpoint(denoised(mixed(7)), "cpu").path == Checkpoint(runs[2], "cpu").path


def test_an_adapter_is_served_on_denoised_words(run: Run, denoised: Denoised) -> None:
    bare = replace(run, reconstruction=None, backbone_name=str(run.backbone))
    run = denoised(mixed(len(WORDS)), run=bare)
    result = train_seed(run)
    model = Adapted(run.adapter)
    assert model.contract.denoiser == "posterior-mean"
    test = files.read_parquet(run.release / "seed-0/test.parquet").to_pydict()
    texts = [
        Text(words=words, segment=[0] * len(words), plain=plain)
        for words, plain in zip(test["words"], test["plain"], strict=True)
    ]
    found = np.argmax(model.answer(texts), axis=1)
    assert np.mean(found == test["label"]) == result.metrics["accuracy"]
    for path in (run.adapter / "denoised").iterdir():
        path.unlink()
    with pytest.raises(
        RaptError, match=r"^adapter: got '.*denoised' without denoised words, expected them. Copy"
    ):
        Adapted(run.adapter)
