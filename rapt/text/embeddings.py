"""Building an embedding table from a language model's public vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from rapt import files, models
from rapt.progress import bar
from rapt.text.tagging import Tagger

WORD_START = ("Ġ", "▁")


def candidates(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """The whole words of a vocabulary and their tokens: digits and punctuation are words too.

    WordPiece: all but the `##` pieces, the special and the `[unused]` tokens. BPE, SentencePiece:
    the tokens that begin with the word-boundary marker, without it. In the order of the tokens.
    """
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_tokens)
    if any(token.startswith("##") for token, _ in tokens):
        return {
            token: i
            for token, i in tokens
            if token not in special and not re.fullmatch(r"##.*|\[unused\d+\]", token, re.S)
        }
    starts = (
        (i, str(tokenizer.decode([i])).strip())
        for token, i in tokens
        if token.startswith(WORD_START)
    )
    words: dict[str, int] = {}
    for i, word in starts:
        if word and word not in special and not re.search(r"\s|\ufffd", word):
            words.setdefault(word, i)
    return words


def build_table(
    model: Path, tagger: Tagger, extra_pos: Mapping[str, Sequence[str]], folder: Path
) -> None:
    """Write the table of a model's vocabulary into `folder` (docs/data.md).

    Args:
        model: folder of the embedding model.
        tagger: gives each word the tag of its category.
        extra_pos: further tags of some words.
        folder: an empty path.
    """
    models.quiet()
    tokenizer = AutoTokenizer.from_pretrained(model)
    backbone = AutoModel.from_pretrained(model, use_safetensors=True)
    pieces = backbone.get_input_embeddings().weight.detach().float().numpy()
    words = candidates(tokenizer)
    tags = bar(tagger.words(words), "tagging the vocabulary", len(words))
    pos = [[tag, *extra_pos.get(word, ())] for word, tag in zip(words, tags, strict=True)]

    folder.mkdir(parents=True)
    files.write_parquet(folder / "words.parquet", pa.table({"word": list(words), "pos": pos}))
    np.save(folder / "vectors.npy", pieces[list(words.values())], allow_pickle=False)
    np.save(folder / "pieces.npy", pieces, allow_pickle=False)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
