"""The words and tokens of a model's vocabulary: what may stand in a release."""

from __future__ import annotations

import re

from tokenizers import Tokenizer

WORD_START = ("Ġ", "▁")
# Tokens that stand for no word, in whatever vocabulary: [UNK], <s>, [unused1], <|endoftext|>.
SPECIAL = re.compile(r"\[[A-Za-z_ ]+\d*\]|<[|/]?(?:[A-Za-z]|0x)[^<>\s]*>|##.+", re.S)


def is_word(word: str) -> bool:
    """Whether an entry of a vocabulary can be a word of a release."""
    return bool(word) and not SPECIAL.fullmatch(word) and not re.search(r"\s|\ufffd", word)


def proper(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens of a vocabulary in order, without special and unused ones."""
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special}
    special.add(getattr(tokenizer.model, "unk_token", ""))  # not always among them
    return {
        token: i
        for token, i in tokens
        if token not in special and is_word(token.removeprefix("##").lstrip("Ġ▁") or token)
    }


def candidates(tokenizer: Tokenizer) -> dict[str, int]:
    """The whole words of a vocabulary and their tokens: digits and punctuation are words too.

    BPE, SentencePiece: the tokens that begin with the word-boundary marker, without it. WordPiece:
    all but the `##` pieces. Special and unused tokens are no words. In the order of the tokens.
    """
    tokens = proper(tokenizer)
    marked = [i for token, i in tokens.items() if token.startswith(WORD_START)]
    if not marked or any(token.startswith("##") for token in tokens):
        return {token: i for token, i in tokens.items() if is_word(token)}
    words: dict[str, int] = {}
    for i in marked:
        if is_word(word := tokenizer.decode([i]).strip()):
            words.setdefault(word, i)
    return words
