"""Texts written after sources, by tiny language models: prompts, the loss, beams, errors."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers as hf
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from rapt.kinds.choose import Choose
from rapt.kinds.generate import Generate
from rapt.serving.model import Adapted
from rapt.serving.protocol import Text
from rapt.tuning.backbones import translated
from rapt.tuning.config import Decoding, Reconstruction, Run, TrainConfig
from rapt.tuning.inputs import NO_PLAIN, Split, collate, read_columns
from rapt.tuning.loading import load_model, load_tokenizer
from rapt.tuning.model import Writer, adapt, load
from rapt.tuning.ragged import Ragged
from rapt.tuning.train import train_seeds
from rapt.tuning.trainer import Trainer
from rapt.tuning.tuners import Tuner
from rapt.tuning.writing import sampled, tokenized, write
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.conftest import write_release
from tests.tuning.families import CHAT, make
from tests.tuning.test_choosing import ALL, PAIRS, WRITERS
from tests.tuning.test_choosing import questions as questions
from tests.tuning.test_choosing import writers as writers
from tests.tuning.tokenizers import gpt2_tokenizer

TRANSLATORS = ("t5", "bart")
QUICKLY = (("t5", "lora"), ("bart", "full"))
TRANSLATED = [
    pytest.param(family, tuner, marks=[] if (family, tuner) in QUICKLY else pytest.mark.slow)
    for family in TRANSLATORS
    for tuner in ALL
    if (family, tuner) != ("t5", "bitfit")
]
GREEDY = Decoding(beams=1, max_new_tokens=5)
COLUMNS = {
    "words": [["film", "plot", ",", "very", "so", "bad", "."], ["unlikely", "film"]],
    "segment": [[0, 0, 1, 1, 1, 1, 1], [0, 0]],
    "space_after": [[True, False, True, True, True, False, False], [True, False]],
}


def of_words(words: list[list[str]], texts: list[list[str]] | None = None) -> dict[str, list]:
    """The columns of sources, and of the texts that were written of them."""
    pairs = list(zip(words, texts or [[]] * len(words), strict=True))
    return {
        "words": [[*source, *text] for source, text in pairs],
        "segment": [[0] * len(source) + [1] * len(text) for source, text in pairs],
        "space_after": [[True] * len([*source, *text]) for source, text in pairs],
    }


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of sources whose first word is to be written twice."""
    rng = np.random.default_rng(0)
    splits = {}
    for split, n in (("train", 96), ("test", 12)):
        first = [str(word) for word in rng.choice(["film", "plot"], n)]
        written = [[word, word] if split == "train" else [] for word in first]
        # Of different lengths, so that a batch is padded.
        read = [[word, *["very"] * (i % 4), "so"] for i, word in enumerate(first)]
        splits[split] = of_words(read, written)
    folder = tmp_path_factory.mktemp("sources")
    return write_release(folder, splits, kind="generate", labels=None)


@pytest.fixture
def to_write(sources: Path, run: Run) -> Callable[[Path, Tuner], Run]:
    def made(backbone: Path, tuner: Tuner) -> Run:
        epochs = 24 if tuner == ALL["full"] else 8
        return replace(
            run,
            release=sources,
            kind=Generate(),
            backbone=backbone,
            tuner=tuner,
            reconstruction=Reconstruction(head_size=8, weight=0.1),
            train=TrainConfig(epochs=epochs, batch_size=8, max_tokens=40),
            decoding=GREEDY,
        )

    return made


def one_by_one(model: Writer, tokens: list[int], pad: int, end: int, most: int) -> list[int]:
    """Write the likeliest token each time, from the activations of the whole text: no cache."""
    found: list[int] = []
    while len(found) < most and end not in found:
        text = [*tokens, *found]
        split = Split.of_lists([text])
        with torch.inference_mode():
            states = model.activations(collate(split, [0], pad))
            found.append(int(model.head(states[0, -1].to(model.head.weight.dtype)).argmax()))
    return found


@pytest.mark.parametrize(("family", "tuner"), PAIRS)
def test_what_was_learnt_is_saved_loaded_and_written(
    writers: dict[str, Path], to_write: Callable[[Path, Tuner], Run], family: str, tuner: str
) -> None:
    run = to_write(writers[family], ALL[tuner])
    (trained,) = train_seeds([run])
    if tuner != "untuned":
        losses = trained.result.curves["task_loss"]
        assert losses[-1] < losses[0]
    tokenizer = load_tokenizer(writers[family])
    split = tokenized(read_columns(run.release / "seed-0/test.parquet")[0], tokenizer, 40)
    if tuner == "full":
        firsts = [tokenizer.decode(tokens) for tokens in split.tokens]
        twice = [text.split().count("film") for text in trained.answers["test"]]
        # One film is a plain word.
        expected = [2 if first.count("film") == 2 else 0 for first in firsts]
        assert np.mean(np.array(twice) == expected) > 0.8
    loaded = load(run.adapter, writers[family], make=Writer, writes=True)
    assert isinstance(loaded, Writer)
    again, finished = write(loaded, split, tokenizer, GREEDY, 5)
    assert again == trained.answers["test"]
    assert finished == trained.result.metrics["finished"]
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    for tokens, text in zip(list(split.tokens)[:5], again, strict=False):
        own = one_by_one(loaded, tokens, pad, end, GREEDY.max_new_tokens)
        assert text == first_line(tokenizer, own)
    few = split.of(range(3))
    assert sampled([loaded] * 2, few, tokenizer, 5, likeliest) == again[:3]


def likeliest(each: NDArray[np.float64]) -> int:
    """The token that two models, which are one, find likeliest."""
    assert each.sum(axis=1) == pytest.approx([1, 1])
    return int(each.mean(axis=0).argmax())


def first_line(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    text = str(tokenizer.decode(tokens, skip_special_tokens=True))
    return text.strip().partition("\n")[0].strip()


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The families with an encoder and a decoder that writes."""
    root, auto = tmp_path_factory.mktemp("translators"), hf.AutoModelForSeq2SeqLM
    how = {"is_encoder_decoder": True, "forced_eos_token_id": None}
    ends = {"t5": 1, "bart": 2}
    return {
        name: make(name, root / name, auto, decoder_start_token_id=end, eos_token_id=end, **how)
        for name, end in ends.items()
    }


@pytest.mark.parametrize(("family", "tuner"), TRANSLATED)
def test_a_decoder_writes_what_its_encoder_read(
    translators: dict[str, Path], to_write: Callable[[Path, Tuner], Run], family: str, tuner: str
) -> None:
    run = to_write(translators[family], ALL[tuner])
    (trained,) = train_seeds([run])
    if tuner != "untuned":
        losses = trained.result.curves["task_loss"]
        assert losses[-1] < losses[0]
        assert "reconstruction_loss" in trained.result.curves
    tokenizer = load_tokenizer(translators[family])
    loaded = load(run.adapter, translators[family], make=Writer, writes=True)
    assert isinstance(loaded, Writer)
    test, train = (
        tokenized(
            read_columns(run.release / f"seed-0/{name}.parquet")[0], tokenizer, 40, apart=True
        )
        for name in ("test", "train")
    )
    again, _ = write(loaded, test, tokenizer, GREEDY, 5)
    assert again == trained.answers["test"]
    # Its loss is that of PEFT's own forward pass, and its text the likeliest token each time.
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    batch = collate(train, [0], pad)
    with torch.inference_mode():
        loss = loaded.loss(loaded.activations(batch), batch)
        own = loaded.backbone(
            input_ids=batch.tokens, attention_mask=batch.attention, labels=batch.targets
        )
    torch.testing.assert_close(loss, own.loss.float(), atol=1e-4, rtol=1e-4)
    for row in range(3):
        found: list[int] = []
        while len(found) < GREEDY.max_new_tokens and end not in found:
            one = replace(test.of([row]), targets=Ragged.of([[*found, 0]]))
            batch = collate(one, [0], pad)
            with torch.inference_mode():
                states = loaded.activations(batch)
                found.append(int(translated(loaded.backbone, states, batch)[0, -1].argmax()))
        assert again[row] == first_line(tokenizer, found)


def test_an_encoder_reads_the_source_and_a_decoder_the_text(translators: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(translators["t5"])
    columns = {**COLUMNS, "plain": [["likely"], []]}
    split = tokenized(columns, tokenizer, 100, apart=True)
    assert split.targets is not None
    assert tokenizer.decode(split.tokens[0]).startswith("likely film plot")
    assert split.tokens[0][-1] == split.targets[0][-1] == tokenizer.eos_token_id
    assert [place for place in split.plain[0] if place != NO_PLAIN] == [0]
    assert split.targets[1] == []


def test_a_decoder_without_a_token_to_begin_with_is_one_line(
    translators: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(translators["t5"], tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["decoder_start_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RaptError, match=r"^the backbone: got t5 without decoder_start_token_id"):
        load_model(tmp_path, writes=True)


def test_a_letter_is_not_translated(
    translators: dict[str, Path], to_write: Callable[[Path, Tuner], Run], questions: Path
) -> None:
    run = to_write(translators["t5"], ALL["lora"])
    run = replace(run, release=questions, kind=Choose(("film", "plot", "very")))
    with pytest.raises(RaptError, match="got t5, expected a causal language model"):
        train_seeds([run])


@pytest.mark.parametrize("family", WRITERS)
def test_the_loss_is_the_model_s_own_of_the_text(writers: dict[str, Path], family: str) -> None:
    """Each text counts as much as another: the mean of their losses, one by one."""
    tokenizer, model = load_tokenizer(writers[family]), load_model(writers[family], writes=True)
    longer = {name: [*each, each[0] + each[0]] for name, each in COLUMNS.items()}
    longer["segment"][2] = [0] * 7 + [1] * 7
    split = tokenized(longer, tokenizer, 60).of([0, 2])
    batch = collate(split, [0, 1], tokenizer.pad_token_id)
    expected = []
    for tokens, is_text in zip(split.tokens, split.text, strict=True):
        labels = [token if own else -100 for token, own in zip(tokens, is_text, strict=True)]
        with torch.inference_mode():
            expected.append(model(torch.tensor([tokens]), labels=torch.tensor([labels])).loss)
    writer = Writer(model).eval()
    with torch.inference_mode():
        loss = writer.loss(writer.activations(batch), batch)
    torch.testing.assert_close(loss, torch.stack(expected).mean(), atol=1e-4, rtol=1e-4)


def test_the_prompt_and_the_text_read_as_people_write_them(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    columns = {**COLUMNS, "plain": [["likely", "unlikely"], []]}
    split = tokenized(columns, tokenizer, 100)
    tokens = list(zip(split.tokens[0], split.text[0], split.plain[0], strict=True))
    prompt, text = ([t for t, own, _ in tokens if own is one] for one in (False, True))
    assert tokenizer.decode(prompt) == "likely unlikely film plot\nText:"
    assert tokenizer.decode(text) == " , very so bad.<|endoftext|>"
    of_plain = [tokenizer.decode([t for t, _, k in tokens if k == n]) for n in range(2)]
    assert of_plain == ["likely", " unlikely"]
    assert not any(split.text[1])
    short = tokenized(COLUMNS, tokenizer, len(tokenizer("film plot")["input_ids"]) - 1)
    assert tokenizer.decode(short.tokens[1]) == "unlikely\nText:"


def test_a_source_may_be_a_turn_of_a_chat(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    columns = {**COLUMNS, "plain": [["likely", "film"], ["so"]]}
    with pytest.raises(RaptError, match=r"decoding\.chat: got true with a tokenizer without"):
        tokenized(columns, tokenizer, 60, chat=True)
    tokenizer.chat_template = CHAT
    split = tokenized(columns, tokenizer, 60, chat=True)
    assert tokenizer.decode(split.tokens[1]) == "<user>so unlikely film<end><assistant>"
    pairs = list(zip(split.tokens[0], split.plain[0], strict=True))
    of_plain = [tokenizer.decode([t for t, k in pairs if k == n]) for n in range(2)]
    assert of_plain == ["likely", " film"]
    with pytest.raises(RaptError, match=r"decoding\.chat: got true with an encoder"):
        tokenized(columns, tokenizer, 60, chat=True, apart=True)


def test_a_chat_has_the_tokens_of_its_template(tmp_path: Path) -> None:
    """GPT-2's own class is told to add a space before words, not so before a template's."""
    made = gpt2_tokenizer()
    made.add_special_tokens({"additional_special_tokens": ["<user>", "<end>", "<assistant>"]})
    made.chat_template = CHAT
    made.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "GPT2Tokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.add_prefix_space
    split = tokenized({**COLUMNS, "plain": [["so"], []]}, tokenizer, 60, chat=True)
    assert tokenizer.decode(split.tokens[1]) == "<user>unlikely film<end><assistant>"


def test_beams_find_a_likelier_text_and_sizes_change_nothing(writers: dict[str, Path]) -> None:
    tokenizer, model = load_tokenizer(writers["qwen2"]), load_model(writers["qwen2"], writes=True)
    writer = Writer(model).eval()
    words = [["film", "plot"], ["so"], ["very", "bad", "film", "likely"]]
    split = tokenized(of_words(words), tokenizer, 60)
    beams = Decoding(beams=4, max_new_tokens=6)
    found = [write(writer, split, tokenizer, beams, size)[0] for size in (1, 3)]
    assert found[0] == found[1]

    def likelihood(text: Split) -> float:
        batch = collate(text, range(3), tokenizer.pad_token_id)
        with torch.inference_mode():
            return -float(writer.loss(writer.activations(batch), batch))

    def with_texts(decoding: Decoding) -> Split:
        written = write(writer, split, tokenizer, decoding, 3)[0]
        return tokenized(of_words(words, [text.split(" ") for text in written]), tokenizer, 60)

    greedy = Decoding(beams=1, max_new_tokens=6)
    assert likelihood(with_texts(beams)) >= likelihood(with_texts(greedy)) - 1e-3


def test_a_prefix_writes_the_same_in_batches_of_any_size(writers: dict[str, Path]) -> None:
    """A window of 8 places: with padding in it, it would see less of the prefix."""
    tokenizer, model = (
        load_tokenizer(writers["mistral"]),
        load_model(writers["mistral"], writes=True),
    )
    model.config.sliding_window = 8
    adapted = adapt(model, ALL["prefix-tuning"])
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in adapted.parameters():
            weights.copy_(weights * 5 if weights.ndim > 1 else weights)
            if weights.requires_grad:
                weights.normal_(std=2)
    counts = (1, 12, 3, 20, 7, 2, 15, 3)
    words = [[("film", "so", "bad")[(at * at) % 3] for at in range(count)] for count in counts]
    split = tokenized(of_words(words), tokenizer, 60)
    writer = Writer(adapted).eval()
    found = [write(writer, split, tokenizer, GREEDY, size)[0] for size in (1, 8)]
    assert found[0] == found[1]


def test_a_penalty_of_repetition_does_not_count_the_source(writers: dict[str, Path]) -> None:
    """An extreme penalty forbids to write a token twice, but not to copy one of the source."""
    tokenizer, model = load_tokenizer(writers["gpt2"]), load_model(writers["gpt2"], writes=True)
    embedding = model.get_input_embeddings().weight
    copied = tokenizer(" so")["input_ids"][0]
    with torch.no_grad():
        model.get_output_embeddings().weight = torch.nn.Parameter(embedding.detach().clone())
        model.get_output_embeddings().weight[copied] *= 1000
    writer = Writer(model).eval()
    split = tokenized(of_words([["so", "so"]]), tokenizer, 9)
    decodings = (Decoding(beams=1, max_new_tokens=5, repetition_penalty=p) for p in (1.0, 1e9))
    plain, penalized = (write(writer, split, tokenizer, how, 1)[0][0] for how in decodings)
    assert plain.count("so") > 1
    assert penalized.count("so") == 1


def test_a_tokenizer_without_an_end_is_refused(writers: dict[str, Path]) -> None:
    tokenizer = load_tokenizer(writers["gpt2"])
    tokenizer.eos_token = None
    with pytest.raises(RaptError, match="got no end-of-text token, expected one"):
        tokenized(COLUMNS, tokenizer, 60)


def test_texts_longer_than_the_model_takes_are_refused(
    writers: dict[str, Path], to_write: Callable[[Path, Tuner], Run]
) -> None:
    run = to_write(writers["gpt2"], ALL["lora"])
    long = replace(run, decoding=Decoding(beams=1, max_new_tokens=500))
    line = r"decoding\.max_new_tokens: got 500 tokens after \d+ of .* Lower it or train\.max_tokens"
    with pytest.raises(RaptError, match=line):
        train_seeds([long])


def with_a_long_target(sources: Path, folder: Path, words: int) -> Path:
    """Return a copy of the release whose last source is 40 words and has a target of `words`."""
    shutil.copytree(sources, folder)
    table = files.read_parquet(sources / "seed-0/train.parquet").to_pydict()
    table["words"][-1] = ["film"] * (40 + words)
    table["segment"][-1] = [0] * 40 + [1] * words
    table["space_after"][-1] = [True] * (40 + words)
    files.write_parquet(folder / "seed-0/train.parquet", pa.table(table))
    return folder


def test_a_target_longer_than_the_model_takes_is_one_line(
    writers: dict[str, Path], to_write: Callable[[Path, Tuner], Run], sources: Path, tmp_path: Path
) -> None:
    run = to_write(writers["gpt2"], ALL["lora"])
    long = replace(run, release=with_a_long_target(sources, tmp_path / "long", 300))
    with pytest.raises(RaptError, match=r"^movies-tiny, seed 0: targets: got 301 tokens in one, "):
        train_seeds([long])
    # Where both fit alone, the prompt can be cut.
    both = replace(run, release=with_a_long_target(sources, tmp_path / "both", 140))
    line = r"train\.max_tokens: got 1[89]\d tokens with plain and special .* those of a target"
    with pytest.raises(RaptError, match=line):
        train_seeds([both])


def test_an_encoder_and_its_decoder_have_positions_of_their_own(
    translators: dict[str, Path],
    to_write: Callable[[Path, Tuner], Run],
    sources: Path,
    tmp_path: Path,
) -> None:
    run = to_write(translators["bart"], ALL["lora"])
    run = replace(run, train=TrainConfig(epochs=1, batch_size=48, max_tokens=40))
    run = replace(run, backbone_name=str(run.backbone))  # to be served
    long = replace(run, release=with_a_long_target(sources, tmp_path / "long", 300))
    line = r"^movies-tiny, seed 0: targets: got 30\d tokens in one, expected at most 160 "
    with pytest.raises(RaptError, match=line):
        train_seeds([long])
    with pytest.raises(RaptError, match="expected at most 155 "):  # a prefix is the decoder's
        train_seeds([replace(long, tuner=ALL["prefix-tuning"])])
    with pytest.raises(RaptError, match=r"max_new_tokens: got 161 .* most 160 .* Lower it\.$"):
        train_seeds([replace(run, decoding=Decoding(beams=1, max_new_tokens=161))])
    # Together they are more than 160.
    whole = with_a_long_target(sources, tmp_path / "whole", 150)
    train_seeds([replace(run, release=whole, decoding=Decoding(beams=1, max_new_tokens=160))])
    plain = ["likely", "film", "unlikely"]
    text = Text(words=["film"] * 40, segment=[0] * 40, plain=plain, space_after=[True] * 40)
    assert len(Adapted(run.adapter).answer([text])) == 1


def test_a_model_that_cannot_search_is_refused_before_it_is_tuned(
    tmp_path: Path, to_write: Callable[[Path, Tuner], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RWKV's state is no cache that beams could be sorted in."""
    tokenizer = gpt2_tokenizer()
    tokenizer.save_pretrained(tmp_path / "rwkv")
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}
    config = hf.RwkvConfig(vocab_size=len(tokenizer), **shape)
    hf.RwkvForCausalLM(config).save_pretrained(tmp_path / "rwkv")
    run = to_write(tmp_path / "rwkv", ALL["lora"])
    monkeypatch.setattr(Trainer, "take_steps", lambda *_: pytest.fail("it was tuned"))
    with pytest.raises(RaptError, match=r"^decoding\.beams: got 2 for rwkv, which .* expected 1"):
        train_seeds([replace(run, decoding=Decoding(beams=2, max_new_tokens=5))])
