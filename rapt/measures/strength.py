"""How much a privatizer changes: measured on public words, before any text is released."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from rapt.measures.calibration import grid, largest
from rapt.measures.replacement import public_words
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import NORMAL_95, Rows, Share
from rapt.privacy.mechanisms import Space, WordMechanism
from rapt.privacy.neighbours import ExactSearch
from rapt.privacy.posterior import prior_of
from rapt.privacy.privatizer import NAME, Privatizer
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError
from rapt.utils.memmap import take

ATTACKED, NEAR, AROUND, DRAWS = 200, 8, 32, 16  # of the Bayesian attacker
MOST_TIMES = 10  # releases of a word that are drawn
WORDS = 500  # of public texts, about, each privatized once
ENOUGH = 0.1  # of the protected words have to become another, else a release is weak
READ, MARGIN = 1 - ENOUGH, 0.02  # of them may be named by the Bayesian attacker, else it is weak
LEAST = 1e-12  # of the given η: the least that is tried in search of one that is not weak


@lru_cache(maxsize=1)  # a release asks before it begins, and for its statement
def replaced(privatizer: Privatizer) -> Share:
    """Measure the share of protected words that a privatizer replaces, with a 95 % interval.

    The words are those of public texts that the table lists: it is the first share that
    `rapt calibrate` prints, from fewer draws. The noise is fixed, so the same privatizer has the
    same share. Wilson's interval (1927).
    """
    return _replaced(privatizer, public_words(privatizer, WORDS))


@lru_cache(maxsize=1)
def replaced_names(privatizer: Privatizer) -> Share:
    """The same of proper nouns; of all words if the table lists none."""
    return _replaced(privatizer, public_words(privatizer, WORDS, NAME))


def _replaced(privatizer: Privatizer, rows: Rows) -> Share:
    words = [privatizer.table.words[row] for row in rows]
    text = PreparedText(words, privatizer.groups_of_rows(rows), lambda: stream(0, "strength"))
    (released,) = privatizer.privatize([text])
    share = float(np.mean([one != other for one, other in zip(words, released, strict=True)]))
    n, z = len(words), NORMAL_95
    middle, scale = share + z**2 / (2 * n), 1 + z**2 / n
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Share(share, float((middle - reach) / scale), float((middle + reach) / scale))


@lru_cache(maxsize=1)
def read(privatizer: Privatizer) -> float:
    """The share of public text's protected words that a Bayesian attacker names, at least.

    He knows mechanism, η, table and public frequencies. He judges a released word among the NEAR
    words nearest to it, by draws of the mechanism over the words around it. A better attacker may
    name more. Fixed noise, as in `replaced`.
    """
    table, rows = privatizer.table, public_words(privatizer, ATTACKED)
    groups = privatizer.groups_of_rows(rows)
    words = PreparedText([table.words[row] for row in rows], groups, lambda: stream(0, "attacked"))
    (released,) = privatizer.privatize([words])
    after, numbers = table.rows(released), np.array(groups)
    guesses = np.empty(len(rows), np.int64)
    for group in np.unique(numbers):
        at = numbers == group
        guesses[at] = _guesses(privatizer, int(group), after[at])
    return float(np.mean(guesses == rows))


@lru_cache(maxsize=4)
def read_after(privatizer: Privatizer, times: int) -> float:
    """The share of words that a Bayesian attacker names who sees each released several times.

    He takes each released word's vector for the noisy one, whose density falls as exp(−η·distance),
    and public frequencies for his prior. Of mechanisms with another noise others may read more. He
    learns how many releases to use from half of the words, and the share is of the others.

    Args:
        privatizer: of the releases.
        times: their number, of which at most MOST_TIMES are drawn.
    """
    table, rows = privatizer.table, public_words(privatizer, 2 * ATTACKED)
    groups = privatizer.groups_of_rows(rows)
    words, prior = [table.words[row] for row in rows], prior_of(table.frequency)
    texts = (
        PreparedText(words, groups, partial(stream, 0, "attacked again", k))
        for k in range(min(times, MOST_TIMES))
    )
    released = [table.rows(again) for again in privatizer.privatize(texts)]
    named = np.zeros((len(released), len(rows)), np.bool_)  # by the first one, two, … releases
    for group in np.unique(groups):
        at, some = np.array(groups) == group, privatizer.rows_of(int(group))
        vectors = take(table.vectors, some)
        squares = np.einsum("ij,ij->i", vectors, vectors)
        score = np.log(prior[some])[None]
        for k, again in enumerate(released):
            seen = take(table.vectors, again[at])
            apart = squares - 2 * (seen @ vectors.T) + np.einsum("ij,ij->i", seen, seen)[:, None]
            score = score - privatizer.eta * np.sqrt(np.maximum(apart, 0))
            named[k, at] = some[score.argmax(axis=1)] == rows[at]
    return float(named[named[:, ::2].mean(axis=1).argmax(), 1::2].mean())


def _guesses(privatizer: Privatizer, group: int, released: Rows) -> Rows:
    """The likeliest original of each released word (n,), by their rows in the table, (n,)."""
    table, mechanism, rows = privatizer.table, privatizer.mechanism, privatizer.rows_of(group)
    if not isinstance(mechanism, WordMechanism):  # its words are the nearest to released vectors
        return released
    distinct, inverse = np.unique(released, return_inverse=True)
    around = ExactSearch(take(table.vectors, rows)).nearest(
        take(table.vectors, distinct), min(AROUND, len(rows))
    )
    prior, guesses = prior_of(table.frequency), []
    for word, near in zip(distinct.tolist(), rows[around], strict=True):
        others = near[near != word][: AROUND - 1]
        some = np.concatenate([[word], others])
        space = Space(take(table.vectors, some), table.frequency[some])
        tried = np.repeat(space.vectors[:NEAR], DRAWS, axis=0)
        draws = mechanism.draw(stream(0, "attacker", word), len(tried), table.dimension)
        outcomes = mechanism.sampler(space, privatizer.eta)(tried, draws)
        likelihood = (outcomes == 0).reshape(-1, DRAWS).mean(axis=1)
        guesses.append(int(some[(likelihood * prior[some[:NEAR]]).argmax()]))
    return np.array(guesses)[inverse]


def check(privatizer: Privatizer, option: str = "--allow-weak") -> None:
    """Refuse a release's level that protects next to nothing.

    Args:
        privatizer: of the release.
        option: what allows it all the same, for the message.

    Raises:
        RaptError: fewer than ENOUGH of the words would be replaced, or an attacker names all but
            ENOUGH. It says which η would do.
    """
    found, eta = replaced(privatizer), privatizer.eta
    if found.value >= ENOUGH:
        named = read(privatizer)
        if named <= READ:
            return
        got = f"at which a Bayesian attacker names {named:.0%}"
        expected = f"{READ:.0%} or fewer"
    else:
        eta = _most(privatizer, lambda at: replaced(at).value >= ENOUGH)
        got, expected = f"which replaces {found.value:.0%}", f"{ENOUGH:.0%} or more"
    # Less 1 %, so that it is not weak when rounded either.
    eta = float(f"{0.99 * _unread(privatizer.at(eta)):.3g}")
    raise RaptError(
        f"eta: got {privatizer.eta:g}, {got} of the protected words of public text, expected "
        f"{expected}. Try eta {eta:g}, or {option}."
    )


def _unread(privatizer: Privatizer) -> float:
    """A large η up to the privatizer's at which a Bayesian attacker does not name too many."""
    if read(privatizer.at(0.99 * privatizer.eta)) <= READ:
        return privatizer.eta
    # What is named falls with η but for its error of a few points: below by as much.
    return _most(privatizer, lambda at: read(at) <= READ - MARGIN)


def _most(privatizer: Privatizer, holds: Callable[[Privatizer], bool]) -> float:
    """Return the largest η up to the privatizer's at which something holds, or the least tried."""
    etas = grid(LEAST * privatizer.eta, privatizer.eta)

    def at(eta: float) -> bool:
        try:
            return holds(privatizer.at(eta))
        except RaptError:  # some mechanisms have a least η
            return True

    return min(privatizer.eta, largest(at, etas) or float(etas[0]))
