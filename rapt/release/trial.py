"""A text on trial: what becomes of each word, and what an attacker reads from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rapt.measures.calibration import largest
from rapt.measures.likelihood import posterior
from rapt.measures.replacement import text_curve
from rapt.privacy.fates import NOISE, Counts, Word
from rapt.privacy.privatizer import Privatizer
from rapt.release.ledger import NOWHERE
from rapt.release.statement import statement
from rapt.release.text import TextPrivatizer, joined
from rapt.utils.errors import RaptError

GUESSES = 3  # of the attacker, shown of each word
WORDS, DRAWS = 1200, 10  # by which the η of a level is found


@dataclass(frozen=True)
class Tried:
    """A word, and the attacker's guesses at it.

    Attributes:
        word: before and after.
        guesses: the likeliest originals with their probability, falling. There are none for a word
            without noise, or where no draw shows how the released word comes about.
        sure: the probability that the attacker gives the original; 0 where he never thinks of it.
        read: whether his first guess is the original, or the word was released as it is.
    """

    word: Word
    guesses: tuple[tuple[str, float], ...] = ()
    sure: float = 0.0
    read: bool = False


@dataclass(frozen=True)
class Trial:
    """A text that was privatized, and nothing written.

    Attributes:
        words: in order.
        released: the text as the provider would get it.
        statement: the privacy statement, as JSON.
    """

    words: list[Tried]
    released: str
    statement: dict[str, Any]


def tried(privatizer: TextPrivatizer, text: str) -> Trial:
    """Privatize a text for its owner's eyes; the ledger counts nothing.

    The attacker knows the mechanism, η, the table, each word's category and how frequent words are
    in public text. By Bayes' rule he judges each word by itself, by `rapt.measures.likelihood`. He
    never thinks of words outside the table, nor reads the context: other attackers read more.

    Raises:
        RaptError: the text is in another language than expected, or the mechanism's likelihood is
            not known.
    """
    (words,) = privatizer.release([text], account=NOWHERE)
    counts = Counts()
    counts.add([words])
    return Trial(
        [_read(privatizer.privatizer, word) for word in words],
        joined(words, privatizer.keep_spacing),
        statement(privatizer, ["text"], counts),
    )


def at_level(share: float, **options: Any) -> TextPrivatizer:
    """Make a privatizer that replaces a share of the protected words of public text.

    The share is of the words that the table lists: others always become another.

    Args:
        share: above 0 and below 1.
        **options: of `TextPrivatizer`, without η.

    Raises:
        RaptError: an option is not allowed, or the mechanism replaces so many words at no η.
    """
    of = TextPrivatizer(eta=1.0, allow_weak=True, **options).privatizer
    curve = text_curve(
        of.table, of.mechanism, of.scheme.categories, words=WORDS, draws=DRAWS, seed=0
    )
    found = largest(lambda eta: curve.replaced(eta).known.value >= share, curve.curve.etas)
    eta = float(f"{found:.3g}")
    if not 0 < eta < inf:
        raise RaptError(
            f"level: got {share:.0%} of the words replaced, expected a share that some η of this "
            "mechanism gives. Try another one."
        )
    return TextPrivatizer(eta=eta, allow_weak=True, **options)


def _read(privatizer: Privatizer, word: Word) -> Tried:
    if word.fate != NOISE:
        as_it_is = word.original == word.released
        return Tried(word, sure=float(as_it_is), read=as_it_is)
    table, rows = privatizer.table, privatizer.rows_of(word.group)
    found = posterior(privatizer, word.group, word.released)
    first = np.argsort(-found, kind="stable")[:GUESSES]
    original = rows == table.rows([table.form(word.original)])[0]
    return Tried(
        word,
        tuple((table.words[rows[at]], float(found[at])) for at in first if found[at]),
        float(found[original].sum()),
        bool(original[first[0]] and found[first[0]]),
    )
