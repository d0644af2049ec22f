"""Questions with choices, on tiny language models: the prompt, the answer, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from rapt import models
from rapt.kinds.choose import Choose
from rapt.tuning import loading
from rapt.tuning.config import Reconstruction, Run, TrainConfig
from rapt.tuning.inputs import collate, letter_tokens, tokenized
from rapt.tuning.loading import load_model, load_tokenizer
from rapt.tuning.model import Chooser, Writer, load
from rapt.tuning.train import train_seed, train_seeds
from rapt.tuning.tuners import Tuner, Untuned
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.conftest import write_release
from tests.tuning.families import CHAT, TUNERS, WITHOUT_BIASES, make
from tests.tuning.tokenizers import word_pieces

LETTERS = ["good", "bad", "so"]  # one token each in every family, as A, B and C are in real ones
WRITERS = (
    *("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gemma3", "smollm2", "olmo2"),
    "phi3",
)
HEADS = {"qwen2": {"tie_word_embeddings": False}}
# One tuner for each family, and each at least once; all other tests are slow.
QUICK = {
    "gpt2": "prompt-tuning",
    "llama": "prefix-tuning",
    "mistral": "p-tuning",
    "qwen2": "full",
    "qwen3": "lora",
    "gemma3_text": "untuned",
    "gemma3": "lora",
    "smollm2": "lora",
    "olmo2": "lora",
    "phi3": "untuned",
}
ALL = {name: how for name, how in TUNERS.items() if name != "linear-probe"}
ALL |= {"untuned": Untuned()}
PAIRS = [
    pytest.param(family, tuner, marks=[] if QUICK[family] == tuner else pytest.mark.slow)
    for family in WRITERS
    for tuner in ALL
    if tuner != "bitfit" or family not in WITHOUT_BIASES
]


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The families with a head that writes."""
    root, auto = tmp_path_factory.mktemp("writers"), hf.AutoModelForCausalLM
    return {name: make(name, root / name, auto, **HEADS.get(name, {})) for name in WRITERS}


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of questions whose word tells the answer."""
    rng = np.random.default_rng(0)
    splits = {}
    for split, n in (("train", 96), ("test", 24)):
        labels = rng.integers(3, size=n)
        words = [
            [("film", "plot", "very")[label], *rng.choice(["film", "plot"], 3)] for label in labels
        ]
        splits[split] = {"words": words, "segment": [[0, 1, 2, 3]] * n, "label": labels}
    folder = tmp_path_factory.mktemp("questions")
    return write_release(folder, splits, kind="choose", labels=LETTERS)


@pytest.fixture
def choose(questions: Path, run: Run) -> Callable[[Path, Tuner], Run]:
    def made(backbone: Path, tuner: Tuner) -> Run:
        epochs = 16 if tuner == ALL["full"] else 4
        return replace(
            run,
            release=questions,
            kind=Choose(tuple(LETTERS)),
            backbone=backbone,
            tuner=tuner,
            reconstruction=Reconstruction(head_size=8, weight=0.1),
            train=TrainConfig(epochs=epochs, batch_size=8, max_tokens=40, held_out=0.2),
        )

    return made


@pytest.mark.parametrize(("family", "tuner"), PAIRS)
def test_an_answer_is_learnt_saved_and_loaded(
    writers: dict[str, Path], choose: Callable[[Path, Tuner], Run], family: str, tuner: str
) -> None:
    run = choose(writers[family], ALL[tuner])
    (trained,) = train_seeds([run])
    metrics = trained.result.metrics
    if tuner == "untuned":
        assert trained.checkpoint is None
        assert not trained.result.curves
    else:
        losses = trained.result.curves["task_loss"]
        assert losses[-1] < losses[0]
    if tuner == "full":  # else the small logits of a random model's head limit it
        assert metrics["exact_match"] > 0.6  # chance is a third
    tokenizer = load_tokenizer(writers[family])
    letters = letter_tokens(tokenizer, LETTERS)
    loaded = load(
        run.adapter, writers[family], make=lambda tuned: Chooser(tuned, letters), writes=True
    )
    table = files.read_parquet(run.release / "seed-0/test.parquet").to_pydict()
    split = tokenized(table, tokenizer, 40, letters=LETTERS)
    batch = collate(split, range(24), tokenizer.pad_token_id)
    with torch.inference_mode():
        again = loaded.scores(loaded.activations(batch), batch)
    np.testing.assert_allclose(trained.answers["test"], again[:, :3], atol=1e-4)


@pytest.mark.parametrize("family", WRITERS)
def test_the_answer_is_what_the_model_writes_next(writers: dict[str, Path], family: str) -> None:
    tokenizer, model = load_tokenizer(writers[family]), load_model(writers[family], writes=True)
    letters = letter_tokens(tokenizer, LETTERS)
    columns = {
        "words": [["film", "plot", "very", "so"], ["unlikely", "film", "good", "plot", "bad"]],
        "segment": [[0, 1, 2, 3], [0, 0, 1, 2, 3]],
        "label": [0, 1],
    }
    split = tokenized(columns, tokenizer, 60, letters=LETTERS)
    batch = collate(split, [0, 1], tokenizer.pad_token_id)
    with torch.inference_mode():
        chooser = Chooser(model, letters).eval()
        ours = chooser.next_token(chooser.activations(batch), batch)
        scores = chooser.scores(chooser.activations(batch), batch)
    for row, tokens in enumerate(split.tokens):
        with torch.inference_mode():
            written = model.generate(
                torch.tensor([tokens]),
                max_new_tokens=1,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=tokenizer.pad_token_id,
            )
        torch.testing.assert_close(ours[row], written.logits[0][0].float(), atol=1e-4, rtol=1e-4)
        others = [logit for token, logit in enumerate(ours[row].tolist()) if token not in letters]
        assert scores[row].tolist() == pytest.approx([*ours[row, letters].tolist(), max(others)])


def test_the_prompt_reads_as_people_write_it(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    columns = {
        "words": [["film", "plot", "very", "so", "bad"]],
        "segment": [[0, 0, 1, 2, 3]],
        "label": [0],
    }
    prompt = " film plot\ngood. very\nbad. so\nso. bad\nAnswer:"
    split = tokenized(columns, tokenizer, 100, letters=LETTERS)
    assert tokenizer.decode(split.tokens[0]) == prompt
    # Where room lacks, the question's last words stay.
    most = len(split.tokens[0]) - 1
    short = tokenized(columns, tokenizer, most, letters=LETTERS)
    assert tokenizer.decode(short.tokens[0]) == prompt.removeprefix(" film")
    # Then the longest choice loses its last words.
    columns = {"words": [["film", "plot", "so", "very", "bad"]], "segment": [[0, 1, 1, 1, 2]]}
    columns |= {"label": [0]}
    whole = tokenized(columns, tokenizer, 100, letters=LETTERS[:2])
    cut = tokenized(columns, tokenizer, len(whole.tokens[0]) - 2, letters=LETTERS[:2])
    assert tokenizer.decode(cut.tokens[0]) == "\ngood. plot so\nbad. bad\nAnswer:"
    with pytest.raises(RaptError, match="max_tokens: got 3, expected at least"):
        tokenized(columns, tokenizer, 3, letters=LETTERS[:2])


def test_a_question_may_be_a_turn_of_a_chat(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    columns = {
        "words": [["film", "plot", "very", "so", "bad"]],
        "segment": [[0, 0, 1, 2, 2]],
        "label": [0],
        "plain": [["unlikely", "film"]],
    }
    with pytest.raises(
        RaptError, match=r"decoding\.chat: got true with a tokenizer without a chat"
    ):
        tokenized(columns, tokenizer, 60, letters=["A", "B"], chat=True)
    tokenizer.chat_template = CHAT
    split = tokenized(columns, tokenizer, 60, letters=["A", "B"], chat=True)
    told = "<user> unlikely film film plot\nA. very\nB. so bad<end><assistant>"
    assert tokenizer.decode(split.tokens[0]) == told
    pairs = list(zip(split.tokens[0], split.plain[0], strict=True))
    of_plain = [tokenizer.decode([t for t, k in pairs if k == n]) for n in range(2)]
    assert of_plain == [" unlikely", " film"]
    assert split.text[0][-1]  # the letter follows
    letters = letter_tokens(tokenizer, ["A", "B"], chat=True)
    assert [tokenizer.decode(letter) for letter in letters] == ["A", "B"]
    with pytest.raises(RaptError, match="one token each"):
        letter_tokens(tokenizer, ["good", "bad"], chat=True)


def test_letters_that_are_nearly_alike_do_not_tie_in_bf16(writers: dict[str, Path]) -> None:
    """Numbers near 18 have steps of an eighth in bfloat16: the first letter would win."""
    tokenizer = load_tokenizer(writers["qwen3"])
    model = load_model(writers["qwen3"], frozen="bf16", writes=True)
    letters = letter_tokens(tokenizer, LETTERS)
    columns = {"words": [["film", "plot", "very", "so"]], "segment": [[0, 1, 2, 3]], "label": [0]}
    batch = collate(tokenized(columns, tokenizer, 60, letters=LETTERS), [0], 0)
    with torch.inference_mode():
        chooser = Chooser(model, letters, "bf16").eval()
        states = chooser.activations(batch)
        logits = chooser.scores(states, batch)
        expected = states[0, -1] @ chooser.head.weight[letters].float().T
    logits = logits[:, : len(letters)]
    torch.testing.assert_close(logits[0], expected)
    assert (logits != logits.bfloat16().float()).all()


def test_letters_are_one_token_each(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    with pytest.raises(RaptError, match=r"label\.names: got good, unlikely, expected names"):
        letter_tokens(tokenizer, ["good", "unlikely"])
    with pytest.raises(RaptError, match="one token each"):
        letter_tokens(tokenizer, ["good", "good"])


def _bert(folder: Path, config: dict[str, Any]) -> Path:
    made = word_pieces("[CLS]", "[SEP]", segments=True)
    made.save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"initializer_range": 0.5}  # else what one word changes may be too little to see
    torch.manual_seed(0)
    model = hf.BertLMHeadModel(hf.BertConfig(vocab_size=len(made), **shape, **config))
    model.save_pretrained(folder)
    return folder


def test_a_model_that_writes_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RaptError, match="got bert, which reads the words to come"):
        load_model(_bert(tmp_path / "bert", {}), writes=True)
    with pytest.raises(RaptError, match="got bert, which changes its head's logits"):
        load_model(_bert(tmp_path / "decoder", {"is_decoder": True}), writes=True)


def test_of_a_model_that_sees_images_the_one_inside_is_read(
    writers: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = writers["gemma3"]
    whole = models.load(hf.AutoModelForCausalLM, folder)
    tokens = torch.tensor([[3, 4, 5, 6]])
    with torch.inference_mode():
        found = load_model(folder, writes=True)(tokens).logits
        torch.testing.assert_close(found, whole(tokens).logits)
    only = {type(whole.config): type(whole)}
    monkeypatch.setattr(loading, "MODEL_FOR_CAUSAL_LM_MAPPING", only)
    with pytest.raises(
        RaptError, match=r"got gemma3, whose language model .* expected one of text"
    ):
        load_model(folder, writes=True)


def test_a_head_whose_logits_are_changed_is_refused(tmp_path: Path) -> None:
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = hf.Gemma2Config(
        vocab_size=40, **shape, head_dim=16, num_key_value_heads=1, intermediate_size=48,
        final_logit_softcapping=0.1,
    )  # fmt: skip
    hf.Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(RaptError, match="got gemma2, which changes its head's logits"):
        load_model(tmp_path, writes=True)


def test_a_lost_adapter_is_no_untuned_model(
    writers: dict[str, Path], choose: Callable[[Path, Tuner], Run]
) -> None:
    run = choose(writers["qwen3"], ALL["lora"])
    train_seed(replace(run, train=TrainConfig(epochs=1, batch_size=48)))
    for path in run.adapter.glob("adapter_*"):
        path.unlink()
    with pytest.raises(OSError, match=r"config\.json"):
        load(run.adapter, writers["qwen3"], make=Writer, writes=True)
