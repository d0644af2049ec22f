"""Accounts of the ledger: one of a text and one of each of its sentences, by their noisy words.

Two spellings of a text that release the same words share an account. So an account goes by the
letters and digits of the words with noise, as the table writes them and without case or accents.
Neither spacing nor punctuation count, nor words that stand in the text without noise.

A document that is edited and released again keeps most of its sentences. So sentences have accounts
of their own, but only those of MINIMUM words with noise or more: “Thank you.” stands everywhere. A
shorter sentence is counted with the next one, or at the end with the whole text alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

MINIMUM = 4  # words with noise of a sentence that has an account
LONG = 32  # words with noise that are no longer taken for one sentence: a list, or a chat
ENDS = frozenset(".!?…。！？؟।")  # characters that end a sentence, where they stand by themselves


class Unit(NamedTuple):
    """A text or sentence, as the ledger counts it.

    Attributes:
        key: its words with noise.
        words: their number.
    """

    key: str
    words: int


class Counted(NamedTuple):
    """A text in which words got noise.

    Attributes:
        whole: the text.
        sentences: those of its sentences that have accounts, each once.
    """

    whole: Unit
    sentences: tuple[Unit, ...] = ()


def counted(words: Iterable[tuple[str, bool]], form: Callable[[str], str] = str) -> Counted | None:
    """Say which accounts a text has; None: no word of it got noise.

    Args:
        words: of the text in order, and whether each got noise.
        form: writes a word as the table does (`EmbeddingTable.form`).
    """
    sentences: list[list[str]] = [[]]
    is_at_end = False
    whole: list[str] = []
    for word, is_noisy in words:
        has_letters = any(map(str.isalnum, word))
        if has_letters and is_at_end:
            if len(sentences[-1]) >= MINIMUM:
                sentences.append([])
            is_at_end = False
        is_at_end |= not has_letters and not ENDS.isdisjoint(word)
        if is_noisy:
            whole.append(_letters(form(word)))
            if has_letters:
                sentences[-1].append(whole[-1])
    if not whole:
        return None
    parts = [part for sentence in sentences for part in _parted(sentence)]
    units = {"".join(part): len(part) for part in parts if len(part) >= MINIMUM}
    # Of signs alone, whatever they are, if there is nothing else.
    text = "".join(filter(str.isalnum, "".join(whole))) or "".join(whole)
    return Counted(Unit(text, len(whole)), tuple(Unit(*unit) for unit in units.items()))


def _parted(sentence: list[str]) -> list[list[str]]:
    """Cut a long sentence where its words say, so that an edit moves only the cuts beside it."""
    if len(sentence) <= LONG:
        return [sentence]
    parts: list[list[str]] = [[]]
    for word in sentence:
        parts[-1].append(word)
        if len(parts[-1]) >= MINIMUM and crc32(word.encode()) % (LONG // 4) == 0:
            parts.append([])
    return parts


@lru_cache(1 << 14)
def _letters(form: str) -> str:
    """The letters and digits of a word without case and accents; its signs if it has no others."""
    plain = unicodedata.normalize("NFKD", form).casefold()
    return "".join(filter(str.isalnum, plain)) or form
