"""A recognizer whose rule is known: what it finds, and what is left when the words are gone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits
from transformers import GPT2Config, GPT2Model

from rapt.attacks.entities import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.attacks.scores import blind, entity_scores
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.attacks.conftest import FALSE_ALARM, made

# "unlikely" is three tokens, and "good film" one entity of two words.
PLAIN = ["bad", "plot", "very", "so", "likely"]
ENTITIES = {"unlikely": ["B-LOC"], "good film": ["B-PER", "I-PER"]}


def drawn(texts: int, pieces: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Words and tags of texts, of each a third of the pieces entities."""
    rng = np.random.default_rng(seed)
    words, tags = [], []
    for _ in range(texts):
        some = [
            str(rng.choice(PLAIN if rng.random() < 2 / 3 else [*ENTITIES])) for _ in range(pieces)
        ]
        words.append(" ".join(some).split())
        tags.append([tag for piece in some for tag in ENTITIES.get(piece, ["O"])])
    return words, tags


def ner(folder: Path, **settings: Any) -> Ner:
    how: Ner = made("ner", model=str(folder), **settings)
    return how


@pytest.fixture(scope="module")
def fitted(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attackers") / "ner-mine"
    Recognizer.fitted(ner(backbone), *drawn(200, 6, seed=0), seed=0).save(folder)
    return folder


def test_finds_every_entity_of_clean_text(fitted: Path) -> None:
    words, tags = drawn(50, 6, seed=1)
    assert Recognizer.load(fitted, 32).tags(words) == tags


def test_finds_none_whose_words_are_replaced(fitted: Path) -> None:
    words, tags = drawn(50, 6, seed=1)
    gone = {"unlikely": "likely", "good": "bad", "film": "plot"}
    released = [[gone.get(word, word) for word in text] for text in words]
    found = entity_scores(tags, Recognizer.load(fitted, 32).tags(released)).ratios
    assert found["recall"][1].sum() > 50
    assert found["precision"][1].sum() == 0


@pytest.mark.parametrize("often", [(0.7, 0.7), (0.9, 0.1)], ids=["uniform", "two words"])
def test_reaches_the_best_f1_that_there_is(backbone: Path, often: tuple[float, float]) -> None:
    """A film and a plot are persons so often; best is to tag every word that mostly is one.

    How many of these are right is tested exactly. Where words tell nothing, that is the baseline.
    """
    rng, chance = np.random.default_rng(0), dict(zip(("film", "plot"), often, strict=True))
    words = [[str(word) for word in rng.choice(["film", "plot"], 6)] for _ in range(300)]
    tags = [["B-PER" if rng.random() < chance[word] else "O" for word in text] for text in words]
    guesses = Recognizer.fitted(ner(backbone), words[:200], tags[:200], seed=0).tags(words[200:])
    best = [["B-PER" if chance[word] > 0.5 else "O" for word in text] for text in words[200:]]
    assert guesses == best
    found = entity_scores(tags[200:], guesses)
    right, guessed = (int(counts.sum()) for counts in found.ratios["precision"])
    assert binomtest(right, guessed, max(often)).pvalue > FALSE_ALARM
    told = found.metrics()["f1"] - blind(tags[200:])
    assert told > 0.1 if often[0] > often[1] else told == pytest.approx(0)


def test_what_cannot_be_trained_is_one_line(backbone: Path, tmp_path: Path) -> None:
    own = drawn(16, 6, seed=0)
    with pytest.raises(RaptError, match=r"^max_tokens: got 65, expected at most 64\.$"):
        Recognizer.fitted(ner(backbone, max_tokens=65), *own, seed=0)
    with pytest.raises(RaptError, match=r"not a number, .* Lower learning_rate \(1e\+30\)\.$"):
        Recognizer.fitted(ner(backbone, learning_rate=1e30), *own, seed=0)
    GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=9)).save_pretrained(tmp_path)
    with pytest.raises(RaptError, match="model_type: got 'gpt2', expected one of bert, "):
        Recognizer.fitted(ner(tmp_path), *own, seed=0)


def test_reads_long_texts_to_their_end(backbone: Path, fitted: Path) -> None:
    """In parts of 10 tokens and two special ones, whose borders cut words and entities."""
    words, tags = drawn(20, 40, seed=2)
    recognizer = Recognizer.load(fitted, 12)
    assert recognizer.tags([*words, []]) == [*tags, []]
    # A word that continues in the next part is read at its begin alone.
    read = [(part.text, word) for part in recognizer._parts(words) for word in part.words.values()]
    assert sorted(read) == [(n, at) for n, text in enumerate(words) for at in range(len(text))]


def test_one_seed_gives_one_recognizer_whatever_the_cores(backbone: Path, tmp_path: Path) -> None:
    how, own = ner(backbone, epochs=1), drawn(32, 6, seed=0)
    digests: list[str] = []
    for threads, seed in ((1, 0), (2, 0), (1, 1)):
        with threadpool_limits(threads):
            Recognizer.fitted(how, *own, seed=seed).save(tmp_path / f"{len(digests)}")
        digests.append(files.sha256(tmp_path / f"{len(digests)}"))
    assert digests[0] == digests[1] != digests[2]
