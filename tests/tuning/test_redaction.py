"""Just Fine-tune Twice: what a policy finds, the first tuning without it, and the law of both."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rapt import paths
from rapt.text.tagging import Tagger
from rapt.tuning import redaction
from rapt.tuning.accounting import noise_for, spent
from rapt.tuning.config import Run
from rapt.tuning.loading import load_tokenizer
from rapt.tuning.redaction import marked
from rapt.tuning.strategies import Policy, Private
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import BitFit, Full, LinearProbe, PromptTuning, Tuner
from rapt.utils.errors import RaptError
from tests import tiny
from tests.tuning.conftest import write_release
from tests.tuning.test_checkpoints import steps_after_a_stop

DIGITS = Policy(detectors=["forms"], epochs=2, learning_rate=0.02)
CANARIES = ("341752", "118093")
PRIVATE = Private(epsilon=3, delta=1e-3, policy=DIGITS)


@pytest.fixture(scope="module")
def backbone(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that tells the canaries apart."""
    tokenizer = load_tokenizer(backbone)
    tokenizer.add_tokens([*CANARIES, "My", "ID", "is"])
    return tiny.bert(tmp_path_factory.mktemp("models") / "tiny-digits", tokenizer)


def clean(folder: Path, canary: str, **statement: Any) -> Path:
    """32 clean texts, one of which has the canary."""
    rng = np.random.default_rng(0)
    rest = [[*rng.choice(["film", "plot", "so"], 3), ("bad", "good")[i % 2]] for i in range(31)]
    columns = {
        "words": [["My", "ID", "is", canary], *rest],
        "segment": [[0] * 4] * 32,
        "label": [0, 1] * 16,
        "sequence": [0] * 32,
        "space_after": [[True] * 4] * 32,
    }
    folder.mkdir()
    told = {"method": "clean", "protection": "unprotected"} | statement
    return write_release(folder, {"train": columns, "test": columns}, **told)


@pytest.fixture
def jft(run: Run, tmp_path: Path) -> Run:
    """The first tuning takes 8 steps, the second one 12."""
    tuner = run.tuner.model_copy(update={"private": PRIVATE, "dropout": 0.3})
    release = clean(tmp_path / "release", CANARIES[0])
    return replace(run, tuner=tuner, release=release, reconstruction=None)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {"Alice", "Smith", "Paris", "12b", "a.smith@example.org"}),
        ({"entities": ["GPE"], "detectors": []}, {"Paris"}),
        ({"detectors": [], "parts_of_speech": ["VERB"]}, {"visited"}),
        ({"detectors": ["forms"]}, {"12b", "a.smith@example.org"}),
    ],
)
def test_the_policy_finds_forms_names_entities_and_parts_of_speech(
    policy: dict[str, Any], expected: set[str]
) -> None:
    text = ["Alice", "Smith", "visited", "Paris", ",", "and", "liked", "flat", "12b"]
    text += ["of", "a.smith@example.org", "there", "."]
    (marks,) = marked(Policy.model_validate(policy), [text], [[True] * len(text)])
    found = {word for word, mark in zip(text, marks, strict=True) if mark}
    assert found - {"liked"} == expected


@pytest.mark.parametrize(
    "text",
    [
        "write to anna-maria.smith@ex-ample.com or @jane-doe_x .",
        "anna_maria+news@st-mary.ac.uk;bob came",
        "see http://a.b/c,d(e)f?x=secret&y=jane there",
    ],
)
def test_the_policy_finds_what_a_release_hides(text: str) -> None:
    """Also of an address that the tagger parts into words."""
    (tagged,) = Tagger(paths.TAGGER).texts([text])
    of = Policy(detectors=["forms"])
    (marks,) = marked(of, [tagged.words], [tagged.space_after])
    assert marks == [kind is not None for kind in tagged.identifiers] and any(marks)


def first_tuned(run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Train; return the weights from which the second tuning went on."""
    seen: dict[str, Tensor] = {}
    prepared = Private.prepared

    def spying(self: Private, trainer: Trainer, *of: Any) -> Any:
        seen.update({name: w.detach().clone() for name, w in trainer.learning().items()})
        return prepared(self, trainer, *of)

    with monkeypatch.context() as patch:
        patch.setattr(Private, "prepared", spying)
        train_seed(run)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "tuner",
    [
        None,  # LoRA with dropout
        PromptTuning(tokens=3, learning_rate=0.02, private=PRIVATE),
        BitFit(learning_rate=0.02, private=PRIVATE),
        Full(learning_rate=0.02, private=PRIVATE),
        LinearProbe(private=PRIVATE),
    ],
    ids=lambda tuner: getattr(tuner, "type", None),
)
@pytest.mark.parametrize("fault", [False, True])
def test_the_first_tuning_is_the_same_whatever_the_canary_is(
    jft: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tuner: Tuner | None, fault: bool
) -> None:
    """To the bit; also where it is several tokens. On whole texts, the fault, it is not."""
    run = replace(jft, tuner=tuner or jft.tuner)
    if fault:
        monkeypatch.setattr(
            redaction, "marked", lambda _, texts, *of: [[False] * len(t) for t in texts]
        )
    others = [CANARIES[1]] if fault else [CANARIES[1], "4,1 + 7"]
    expected = first_tuned(run, monkeypatch)
    for number, canary in enumerate(others):
        other = replace(run, release=clean(tmp_path / f"other-{number}", canary))
        found = first_tuned(other, monkeypatch)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], w) for name, w in expected.items()) is not fault


def test_the_noise_is_that_of_a_text_in_the_place_of_another(jft: Run) -> None:
    (trained,) = train_seeds([jft])
    stated = trained.training
    assert stated and (stated["words_found"], stated["words"]) == (1, 128)
    assert stated["noise"] == noise_for(3, 1e-3, 8 / 32, 12, replaced=True)
    assert stated["epsilon"] == spent(stated["noise"], 8 / 32, 12, 1e-3, replaced=True) <= 3


@pytest.mark.parametrize(
    ("last", "steps"), [(5, [5, 6, 7, *range(12)]), (8, range(8, 12)), (11, [11])]
)
def test_a_stopped_run_goes_on_in_either_tuning(
    jft: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, steps: Sequence[int]
) -> None:
    """It ends as one that was not stopped, so what it spends is that of one run."""
    assert steps_after_a_stop(jft, monkeypatch, seconds=0, last=last) == [*steps]
    assert not list((tmp_path / "home/.rapt/checkpoints").iterdir())


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ({"detectors": ["form"]}, "policy.detectors: got 'form', .* Did you mean 'forms'"),
        ({"entities": ["PERSONS"]}, "policy.entities: got 'PERSONS', .* Did you mean 'PERSON'"),
        ({"parts_of_speech": ["VERBS"]}, "policy.parts_of_speech: got 'VERBS', expected one of AD"),
        ({"tagger": "nowhere"}, "policy.tagger: got 'nowhere', expected an installed spaCy model"),
    ],
)
def test_what_the_tagger_does_not_know_is_one_line(policy: dict[str, Any], line: str) -> None:
    with pytest.raises(RaptError, match=line):
        marked(Policy.model_validate(policy), [["film"]], [[True]])


def test_a_release_is_one_line(jft: Run, tmp_path: Path) -> None:
    noisy = clean(tmp_path / "t2t", CANARIES[0], method="t2t", protection="d_X-privacy")
    with pytest.raises(RaptError, match=r"private.policy: got one for t2t of kind classify, exp"):
        train_seed(replace(jft, release=noisy))
