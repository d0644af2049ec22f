"""The share of a text's words that a mechanism replaces: of public texts, or of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rapt.measures.calibration import Calibrated, Curve, curve_over, largest
from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import NORMAL_95, PER, Rows, Share
from rapt.privacy.mechanisms import Mechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable

# Counts of words, tags and numbers in public English texts, by kind: benchmarks/public_words.py.
FILE = Path(__file__).with_name("public_words.parquet")
# A table that lists fewer of their protected words is not of English, or of few words.
ENGLISH = 0.5
# Kinds of text are few and not drawn at random, so the interval over them is of 99 %.
TAIL_OF_KINDS = 0.005

Counted = Mapping[tuple[str, str, str | None], int]  # word, tag and kind of identifier -> times


@dataclass(frozen=True, eq=False)
class FoundText:
    """The words of a text, sorted by what becomes of them.

    Attributes:
        rows: int64 (n,), the table's words among the protected ones that their category lists.
        counts: float64 (n,), how often each stands there.
        always: protected words that their category does not list: always replaced.
        words: all words; 0: unknown.
    """

    rows: Rows
    counts: NDArray[np.float64]
    always: float
    words: float

    @property
    def protected(self) -> float:
        """The number of words that get noise."""
        return float(self.counts.sum()) + self.always


class Replaced(NamedTuple):
    """Shares of words that become another.

    Attributes:
        known: of the protected words that the table lists in their category.
        protected: of all protected words: what the table does not list is always replaced.
        all_words: of all words; None: unknown.
    """

    known: Share
    protected: Share
    all_words: Share | None


def counted(texts: Iterable[tuple[Sequence[str], Sequence[str], Sequence[str | None]]]) -> Counted:
    """Count the words of tagged texts: of each its words, tags and kinds of identifier."""
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for words, tags, identifiers in texts:
        counts.update(zip(words, tags, identifiers, strict=True))
    return counts


def found_in(privatizer: Privatizer, counts: Counted) -> FoundText:
    """Sort the words of a text by what becomes of them, as `Privatizer.text` decides it."""
    table, known, always = privatizer.table, Counter[str](), 0
    for (word, tag, identifier), count in counts.items():
        if identifier and privatizer.hides_identifiers:
            continue
        group = privatizer.group_of(word, privatizer.scheme.group_of(tag))
        form = table.form(word)
        if group != VERBATIM and form in privatizer.words_of(group):
            known[form] += count
        elif group != VERBATIM:
            always += count
    number = np.array(list(known.values()), np.float64)
    return FoundText(table.rows(known), number, always, sum(counts.values()))


@cache
def _kinds() -> Mapping[str, Counted]:
    """Read the words of each kind of public text."""
    from rapt.utils import files  # with Arrow, which a release does not need

    kinds: dict[str, dict[tuple[str, str, str | None], int]] = {}
    for kind, word, tag, number, count in zip(
        *(column.to_pylist() for column in files.read_parquet(FILE).columns), strict=True
    ):
        kinds.setdefault(kind, {})[word, tag, "number" if number else None] = count
    return kinds


def public_texts(privatizer: Privatizer) -> list[FoundText]:
    """Find the kinds of public text; of a table that is not of English its words by frequency."""
    texts = [found_in(privatizer, counts) for counts in _kinds().values()]
    if all(text.counts.sum() > ENGLISH * text.protected for text in texts):
        return texts
    frequency = privatizer.table.frequency[privatizer.candidates]
    usual = frequency if frequency.any() else np.ones(len(frequency))
    return [FoundText(privatizer.candidates, usual / usual.sum(), 0.0, 0.0)]


def public_words(privatizer: Privatizer, count: int, tag: str | None = None) -> Rows:
    """Draw protected words that the table lists, equally many from each kind of public text.

    Args:
        privatizer: of a release.
        count: of words, about.
        tag: a part of speech, to draw words of it alone: from all kinds together. If the table
            lists none of them, it is ignored.

    Returns:
        rows of the table, as often as they were drawn, int64 (n,).
    """
    if tag:
        tagged: Counter[tuple[str, str, str | None]] = Counter()
        for counts in _kinds().values():
            tagged.update({key: count for key, count in counts.items() if key[1] == tag})
        found = found_in(privatizer, tagged)
        if len(found.rows):
            return _drawn(found, count, 0)
    texts = public_texts(privatizer)
    return np.concatenate([_drawn(text, -(-count // len(texts)), 0) for text in texts])


@dataclass(frozen=True, eq=False)
class TextCurve:
    """The shares of texts' words that a mechanism replaces, as a function of η.

    Attributes:
        curve: of the words that were drawn from the texts.
        texts: what was found in each.
        weights: float64 (texts, words), the share of each drawn word among a text's draws.
        draws: how many words were drawn from each text.
    """

    curve: Curve
    texts: Sequence[FoundText]
    weights: NDArray[np.float64]
    draws: int

    def replaced(self, eta: float) -> Replaced:
        """The shares at an η, with intervals.

        Of one text, for that text: 95 % for the words and noise drawn. Of several kinds, for a text
        of another kind: Student's prediction interval of 99 % over kinds, with that error.
        """
        return self.shares(self.curve.shares(eta), self.curve.draws)

    def shares(self, of_words: NDArray[np.float64], draws: int) -> Replaced:
        """The shares of texts, from those of each drawn word's `draws` noisy draws, (words,)."""
        known, errors = self._known(of_words, draws)
        protected = np.array([text.protected for text in self.texts])
        listed = 1 - np.array([text.always for text in self.texts]) / protected
        words = np.array([text.words for text in self.texts])
        covered = protected / np.where(words > 0, words, np.nan)
        return Replaced(
            _share(known, errors),
            _share(1 - listed * (1 - known), listed * errors),
            _share((1 - listed * (1 - known)) * covered, listed * errors * covered)
            if (words > 0).all()
            else None,
        )

    def eta_for(self, share: float) -> Calibrated:
        """The largest η at which this share of protected words is replaced, in the mean of texts.

        The interval is Woodruff's (1952): where the curve passes the ends of the share's interval.
        """
        eta = self.largest(share)
        if not 0 < eta < np.inf:
            return Calibrated(eta, eta, eta)
        found = self.replaced(eta).protected
        low, high = found.value - found.low, found.high - found.value
        return Calibrated(eta, self.largest(share + high), self.largest(share - low))

    def median(self, eta: float) -> float:
        """The probability that the median of the texts' known words is replaced."""
        shares = self.curve.shares(eta)
        order = np.argsort(shares)
        ends = np.cumsum(self.weights.mean(axis=0)[order])
        return float(shares[order[np.searchsorted(ends, ends[-1] / 2)]])

    def largest(self, share: float) -> float:
        """The largest η at which this share of protected words is replaced; 0, inf: `largest`."""
        return largest(lambda eta: self.replaced(eta).protected.value >= share, self.curve.etas)

    def points(self, etas: Sequence[str]) -> list[dict[str, Any]]:
        """Return, for each η, the shares of words replaced, with intervals, and the median N_w."""
        rows = []
        for eta in etas:
            found = self.replaced(float(eta))
            shares = {
                "replaced": found.known,
                "protected": found.protected,
                "all_words": found.all_words,
            }
            rows.append(
                {"eta": eta}
                | {
                    f"{name}{end}": getattr(share, of) if share else None
                    for name, share in shares.items()
                    for end, of in (("", "value"), ("_low", "low"), ("_high", "high"))
                }
                | {"n_w": PER * (1 - self.median(float(eta)))}
            )
        return rows

    def targets(self, shares: Sequence[float]) -> list[dict[str, float | None]]:
        """Return the η of each target share, with its interval; null where no η is too large."""
        rows = []
        for share in shares:
            found = self.eta_for(share)
            etas = {"eta": found.eta, "eta_low": found.low, "eta_high": found.high}
            finite = {name: eta if np.isfinite(eta) else None for name, eta in etas.items()}
            rows.append({"replaced": share, **finite})
        return rows

    def _known(
        self, shares: NDArray[np.float64], draws: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The share of each text's known words, and its standard error, float64 (texts,)."""
        known = self.weights @ shares
        of_words = (self.weights * (shares - known[:, None]) ** 2).sum(axis=1) / self.draws
        # A frequent word was drawn many times, but has the noise of one word's draws.
        of_noise = self.weights**2 @ (shares * (1 - shares)) / draws
        return known, np.sqrt(of_words + of_noise)


def text_curve(
    table: EmbeddingTable,
    mechanism: Mechanism,
    categories: Sequence[str] | None,
    counts: Counted | None = None,
    *,
    words: int,
    draws: int,
    seed: int,
) -> TextCurve:
    """The curve of a mechanism over texts.

    Args:
        table: the embedding table.
        mechanism: the mechanism.
        categories: POS categories; None: every word.
        counts: the words of a text of one's own; None: the public kinds of text.
        words: how many known words are drawn from all texts, as many from each.
        draws: noisy draws of each.
        seed: of both.
    """
    anywhere = of_words(mechanism.privatizer(table=table, eta=np.inf, categories=categories))
    texts = public_texts(anywhere) if counts is None else [found_in(anywhere, counts)]
    size = max(words // len(texts), 2)
    drawn = [_drawn(text, size, seed) for text in texts]
    rows = np.unique(np.concatenate(drawn))
    weights = np.zeros((len(texts), len(rows)))
    for own, some in zip(weights, drawn, strict=True):
        np.add.at(own, np.searchsorted(rows, some), 1 / size)
    curve = curve_over(anywhere, rows, draws, seed)
    return TextCurve(curve, texts, weights, size)


def _drawn(text: FoundText, size: int, seed: int) -> Rows:
    """Draw known words of a text, in equal steps over them by how often they occur."""
    order = np.argsort(-text.counts, kind="stable")
    ends = np.cumsum(text.counts[order])
    steps = (stream(seed, "replacement", "words").random() + np.arange(size)) / size
    return text.rows[order[np.searchsorted(ends, steps * ends[-1], side="right")]]


def _share(values: NDArray[np.float64], errors: NDArray[np.float64]) -> Share:
    mean, kinds, error = float(values.mean()), len(values), float(errors.mean())
    reach = NORMAL_95 * error
    if kinds > 1:
        spread = float(values.std(ddof=1)) * np.sqrt(1 + 1 / kinds)
        reach = float(stdtrit(kinds - 1, 1 - TAIL_OF_KINDS)) * np.hypot(spread, error)
    return Share(mean, max(0.0, mean - reach), min(1.0, mean + reach))
