"""The generator: DP-SGD on labelled texts, by the trainer that tunes adapters."""

from typing import Any

import pytest
from pydantic import ValidationError

from rapt import models, paths
from rapt.synthesis.base import Draw, Made, PrivateTexts, synthesize
from rapt.synthesis.generator import Generator
from rapt.tuning.accounting import spent
from rapt.tuning.config import Sampling
from rapt.tuning.strategies import Private
from rapt.tuning.tuners import Federated, Lora
from rapt.utils.errors import RaptError


def generator(**how: Any) -> Generator:
    fields: dict[str, Any] = {
        "model": "tiny",
        "delta": 0.01,
        "counts": 0.25,
        "texts": 12,
        "epochs": 2,
        "batch_size": 8,
        "sampling": Sampling(max_new_tokens=6),
        "tuner": Lora(r=2, learning_rate=0.01, dropout=0.0),
    }
    return Generator(**fields | how)


@pytest.mark.slow
def test_its_training_spends_what_the_counts_leave(private: PrivateTexts, draw: Draw) -> None:
    made = synthesize(generator(), private, draw)
    assert sum(map(len, made.texts)) + made.empty == 12
    assert made.spent["rate"] == 8 / 24
    assert made.spent["steps"] == 6
    assert 2.9 < made.spent["epsilon"] <= 3.0
    law = (made.spent["noise"], made.spent["rate"], 6, 0.01)
    assert spent(*law) == pytest.approx(made.spent["epsilon"])


def test_equal_draws_make_equal_texts_and_others_do_not(private: PrivateTexts, draw: Draw) -> None:
    """Also where the training is not run again, as its checkpoint stays until all copies do."""

    def made(of: Draw) -> Made:
        return synthesize(generator(), private, of)

    first = made(draw)
    assert first.checkpoint and first.checkpoint.exists()
    assert made(draw) == first
    first.checkpoint.unlink()
    assert made(draw) == first
    assert made(draw._replace(names=(1, *draw.names[1:]))).texts != first.texts


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"delta": 0.05}, "delta: got 0.05 for 24 texts, expected less than 0.042"),
        ({"batch_size": 25}, "^batch_size: got 25 for 24 texts"),
        ({"sampling": Sampling(max_new_tokens=500)}, "prompt: got one that takes 5.. tokens"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    how: dict[str, Any], line: str, private: PrivateTexts, draw: Draw
) -> None:
    with pytest.raises(RaptError, match=line) as error:
        synthesize(generator(**how), private, draw)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "how",
    [
        {"tuner": {"type": "untuned"}},
        {"tuner": {"type": "linear-probe"}},
        {"tuner": Lora(private=Private(epsilon=1.0))},
        {"tuner": Lora(federated=Federated(clients=3))},
        {"prompt": "a review"},
    ],
)
def test_a_section_that_would_not_be_private_or_labelled_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        generator(**how)


def test_an_encoder_is_no_generator(private: PrivateTexts, draw: Draw) -> None:
    minilm = models.folder(paths.MINILM, None)
    with pytest.raises(RaptError, match="expected a whole model"):
        synthesize(generator(), private, draw._replace(folder=minilm))
