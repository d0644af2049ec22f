"""Split-and-Denoise and its control: evidence/split_and_denoise.py, on a tiny random BERT."""

import json

import pytest
import torch

from evidence import split_and_denoise as module
from evidence.split_and_denoise import Server, Texts, denoised, fitted, sent
from rapt import models
from rapt.privacy.mechanisms import TokenRepresentation
from tests.conftest import ROOT
from tests.tuning.conftest import backbone as backbone

WORDS = [["good", "film"], ["so", "very", "unlikely"], ["bad"], ["good", "so", "bad", "film"]] * 8


@pytest.fixture
def server(backbone, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(models, "folder", lambda *_: backbone)
    return Server()


@pytest.fixture
def texts(server: Server) -> Texts:
    return server.texts(WORDS)


def test_without_noise_the_server_answers_what_it_reads(server: Server, texts: Texts) -> None:
    """However it is padded, and as the mean over the tokens of a text."""
    of = sent(server, texts, TokenRepresentation(), 1e9)
    torch.testing.assert_close(of.answer, texts.clean, atol=1e-5, rtol=1e-4)
    alone = server.texts(WORDS[2:3])
    torch.testing.assert_close(alone.clean, texts.clean[2:3], atol=1e-5, rtol=1e-4)


def test_what_is_sent_is_no_longer_than_the_clip(server: Server, texts: Texts) -> None:
    of = sent(server, texts, TokenRepresentation(), 1.0)
    lengths = (texts.vectors + of.noise).norm(dim=2)
    assert float(lengths.max()) == pytest.approx(module.CLIP, rel=1e-4)


def test_the_control_knows_nothing_of_the_answer(server: Server, texts: Texts) -> None:
    """And a denoiser that reads the answer learns to hand it on."""
    of = sent(server, texts, TokenRepresentation(), 1e9)
    other = of._replace(answer=-of.answer)
    models_of = {answer: fitted(texts, [of] * 30, answer) for answer in module.ANSWERS}
    wrong = {
        answer: float((denoised(model, texts, of, answer) - texts.clean).square().mean())
        for answer, model in models_of.items()
    }
    assert wrong["server"] < 0.5 * float(texts.clean.var(0).mean())
    for answer, model in models_of.items():
        both = [denoised(model, texts, which, answer) for which in (of, other)]
        assert torch.equal(*both) == (answer == "zeros")


def test_the_file_has_what_the_page_shows() -> None:
    found = json.loads((ROOT / "evidence/split_and_denoise.json").read_text())
    assert list(found["cells"]) == sorted(
        f"{name} {eta}" for name, etas in module.NOISE.items() for eta in etas
    )
    for cell in found["cells"].values():
        assert set(cell) == {"answer", *module.ANSWERS}
        assert cell["zeros"]["accuracy"] <= found["clean"]["accuracy"] + 0.03
