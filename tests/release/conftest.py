import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from rapt.release.job import Job
from rapt.release.text import TextPrivatizer
from rapt.utils import files

VOCABULARY = {
    "NOUN": ["film", "story", "doctor", "bob", "alice", "mail", "paris", "plot"],
    "VERB": ["saw", "met", "went", "is", "was", "likes"],
    "PRON": ["she", "he", "it"],
    "ADP": ["in", "at", "of"],
    "ADJ": ["great", "bad", "slow"],
    "DET": ["the", "a"],
    "CCONJ": ["and", "or"],
    "PUNCT": [".", ",", "!"],
    "NUM": ["7", "two"],
    "ADV": ["very", "not"],
    "X": ["etc", "oh"],
}
FOUR = ("noun", "verb", "pronoun", "preposition")
SENTENCE = "She met Bob in Paris and the doctor saw a great film at 7 !"  # 9 words get noise


class Stopped(Exception):
    """What ends a run as if it were killed."""


def interrupt(job: Job, privatizer: TextPrivatizer, chunks: int) -> Job:
    """Run it until so many chunks are released."""
    released, calls = privatizer.release, iter(range(chunks))

    def some(*args: object, **rest: object) -> object:
        if next(calls, None) is None:
            raise Stopped
        return released(*args, **rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(privatizer, "release", some)
        job.run(privatizer)
    return job


def left() -> set[str]:
    """What lies in the working folder."""
    return {path.name for path in Path().iterdir()}


def restored(texts: list[str], entries: Path) -> set[str]:
    """The texts of a release with the words that its map has for theirs."""
    words = [text.split() for text in texts]
    for line in entries.read_text().splitlines():
        entry = json.loads(line)
        assert words[entry["document"]][entry["word"]] == entry["released"]
        words[entry["document"]][entry["word"]] = entry["original"]
    return {" ".join(text) for text in words}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random table with words of every category."""
    folder = tmp_path_factory.mktemp("words") / "small"
    folder.mkdir()
    rows = [(word, tag) for tag, words in VOCABULARY.items() for word in words]
    words = [word for word, _ in rows]
    content = {"word": words, "pos": [[tag] for _, tag in rows], "frequency": [0.1] * len(rows)}
    files.write_json(folder / "words.json", content)
    vectors = np.random.default_rng(2).standard_normal((len(words), 8)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "pieces.npy", np.concatenate([vectors, np.zeros((1, 8), np.float32)]))
    vocabulary = {word: i for i, word in enumerate([*words, "[UNK]"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def make(folder: Path) -> Callable[..., TextPrivatizer]:
    return partial(TextPrivatizer, table=folder)


@pytest.fixture(scope="session")
def pct2t(make: Callable[..., TextPrivatizer]) -> TextPrivatizer:
    """Whose noise leaves hardly a word as it was."""
    return make(eta=0.1, categories=FOUR)
