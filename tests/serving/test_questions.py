"""Questions with choices, asked by `rapt predict` of a served language model."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from rapt.serving.model import Adapted
from rapt.serving.protocol import check
from rapt.tuning.config import Decoding
from rapt.utils import files
from tests.serving.conftest import Served, tuned, write_gpt2, write_release
from tests.serving.test_predict import Rapt, repeater
from tests.serving.test_predict import rapt as rapt
from tests.tuning.families import CHAT

LETTERS = ["good", "bad", "so"]  # one token each for the tiny model


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """An adapter that was tuned on questions."""
    root = tmp_path_factory.mktemp("questions")
    write_gpt2(root / "gpt2")
    return answering(root, folder, LETTERS, Decoding())


def answering(root: Path, folder: Path, letters: list[str], decoding: Decoding) -> Path:
    more = {"kind": "choose", "labels": letters}
    rows = {
        "words": [["film", "plot", "plot", "film"]] * 8,
        "segment": [[0, 1, 2, 3]] * 8,
        "label": [0, 1, 2, 0] * 2,
    }
    write_release(root / "release", folder, rows, **more)
    return tuned(root / "release", root / "gpt2", max_tokens=40, decoding=decoding)


def test_a_question_goes_to_the_provider_with_its_choices(asked: Path, rapt: Rapt) -> None:
    with Served(Adapted(asked)) as served:
        done = rapt("--adapter", served.url, "film\tplot\tplot\tfilm", "--eta", "inf", "--json")
        assert done.error == ""
        answer = json.loads(done.stdout)
        assert list(answer["probabilities"]) == LETTERS
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert b'"segment":[0,1,2,3]' in served.received
        alone = rapt("--adapter", served.url, "film\tplot\tplot")
        assert alone.error.startswith("text 1: got 3 segments, expected 4 with a tab between them")
        sent = served.received.count(b'"segment":')
        for text, what in (("film\tplot\t \u200b\tfilm", "choice 2"), ("\tso\tso\tso", "question")):
            line = f"text 1: got no words as its {what}, expected some. Write it out."
            assert rapt("--adapter", served.url, text).error == line
        assert served.received.count(b'"segment":') == sent == 1


def test_a_chat_is_served_as_it_was_tuned(tmp_path: Path, folder: Path) -> None:
    write_gpt2(tmp_path / "gpt2")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(tmp_path / "gpt2")
    served = Adapted(answering(tmp_path, folder, ["A", "B", "C"], Decoding(chat=True)))
    assert served.kind.readable([9, 9, 9, 9], 39, chat=True)[0] == slice(0, None)
    table = files.read_parquet(tmp_path / "release/seed-0/test.parquet").to_pydict()
    prompt = tokenizer("<user> film\nA. plot\nB. plot\nC. film<end><assistant>")["input_ids"]
    with torch.inference_mode():
        logits = served._model.backbone(torch.tensor([prompt])).logits[0, -1]
    # They begin the answer, so no space is before them.
    letters = tokenizer.convert_tokens_to_ids(["A", "B", "C"])
    expected = logits[letters].double().softmax(0).expand(8, 3).contiguous()
    torch.testing.assert_close(served.probabilities(table), expected)


def test_a_question_is_sent_with_all_its_choices_and_its_last_words(
    model: Adapted, folder: Path
) -> None:
    contract = replace(model.contract, max_tokens=9, kind="choose", segments=3)
    privatize = repeater(contract, folder, eta=math.inf)
    (sent,), _ = privatize([["so bad good film", "very very", "plot"]])
    assert sent.words == ["bad", "good", "film", "very", "very", "plot"]
    assert sent.segment == [0, 0, 0, 1, 1, 2]
    check([sent], contract)
    # Three tokens are for the letters and the request. A long choice is cut.
    (short,), _ = repeater(replace(contract, max_tokens=5), folder, eta=math.inf)(
        [["so", "very very", "plot"]]
    )
    assert short.words == ["very", "plot"]
