"""Two-sample tests of a release against an independent replay of its mechanism.

The same words are privatized a second time. Under the mechanism's law the release and the replay
of a word are two draws from one distribution. Whatever is computed of both, either is as likely to
be the larger one. So each test is an exact sign test, whatever the words and the law are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from rapt.privacy.privatizer import Privatizer, Released, Words

# Of the test on the replaced share, and of the sign tests of a release's copy together.
FALSE_ALARM = 1e-6
Values = NDArray[np.float64]


@dataclass(frozen=True)
class ReplayTest:
    """Whether a release replaced as many words as its mechanism does.

    The same words are privatized a second time, independently. Where a word is replaced in one and
    not in the other, either is equally likely, whatever the word's own probability. Given their
    number, the surplus is binomial: McNemar's exact test, with false-alarm rate 1e-6.

    Attributes:
        words: tested.
        replaced: in the release.
        expected: in the replay.
        low: fewest, `high` most that `replaced` may be.
    """

    words: int
    replaced: int
    expected: int
    low: int
    high: int

    @property
    def passed(self) -> bool:
        """Whether `replaced` lies in the interval."""
        return self.low <= self.replaced <= self.high


def replay_test(released: Sequence[bool], replayed: Sequence[bool]) -> ReplayTest:
    """Compare which words a release and a replay replaced."""
    one, other = np.array([released, replayed], bool)
    both, discordant = int((one & other).sum()), int((one ^ other).sum())
    # `replaced` = both + (discordant words replaced in the release), Binomial(discordant, 1/2).
    fewest = int(binom.ppf(FALSE_ALARM / 2, discordant, 0.5))
    return ReplayTest(
        words=len(one),
        replaced=int(one.sum()),
        expected=int(other.sum()),
        low=both + fewest,
        high=both + discordant - fewest,
    )


@dataclass(frozen=True)
class SignTest:
    """Whether the release's values are as often above the replay's as below them.

    Attributes:
        name: of what was computed.
        above: how often the release's value is the larger one.
        below: how often it is the smaller one.
        level: the test's false-alarm rate.
    """

    name: str
    above: int
    below: int
    level: float

    @property
    def passed(self) -> bool:
        """Whether `above` lies in its interval, given how many values differ."""
        number = self.above + self.below
        fewest = int(binom.ppf(self.level / 2, number, 0.5))
        return fewest <= self.above <= number - fewest


def sign_tests(released: dict[str, Values], replayed: dict[str, Values]) -> list[SignTest]:
    """Test the law of a release and its independence, given its measures and those of a replay.

    The replay is of the same texts, with independent noise.
    """
    level = FALSE_ALARM / len(released)
    return [
        SignTest(name, int((one > other).sum()), int((one < other).sum()), level)
        for (name, one), other in zip(released.items(), replayed.values(), strict=True)
    ]


def measures(
    privatizer: Privatizer, texts: Sequence[Words], released: Sequence[Released]
) -> dict[str, Values]:
    """Compute what is compared, by name: of each protected word, or of some pairs of them.

    Args:
        privatizer: of the mechanism that should have made the release.
        texts: the original texts, as `Privatizer.text` prepares them.
        released: their release, or a replay of it.
    """
    table = privatizer.table
    pairs = [
        (word, new)
        for text, after in zip(texts, released, strict=True)
        for word, is_drawn, new in zip(text.words, text.drawn, after.words, strict=True)
        if is_drawn
    ]
    words, outcomes = ([table.form(pair[side]) for pair in pairs] for side in (0, 1))
    rows, new_rows = table.rows(words), table.rows(outcomes)
    found = {
        "distance to the word": np.linalg.norm(
            table.embed(outcomes).astype(np.float64) - table.embed(words), axis=1
        ),
        "public frequency": np.where(new_rows < 0, 0, table.frequency[new_rows]),
        "distance of rows": np.abs(rows - new_rows),
        "agreement within a word": agreement(words, outcomes),
    }
    if privatizer.mechanism.releases_vectors:
        found |= _of_noise(privatizer, texts, released)
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


def agreement(words: Sequence[str], outcomes: Sequence[str]) -> Values:
    """Say whether two successive occurrences of a word have one outcome, each in one pair.

    It is so more often where a word always becomes the same one, or noise is used again.
    """
    found, before = [], dict[str, str]()
    for word, outcome in zip(words, outcomes, strict=True):
        if word in before:
            found.append(before.pop(word) == outcome)
        else:
            before[word] = outcome
    return np.array(found, np.float64)


def _of_noise(
    privatizer: Privatizer, texts: Sequence[Words], released: Sequence[Released]
) -> dict[str, Values]:
    """Measure the noise of vectors: its length, a fixed direction, and successive words' angle."""
    noise = [
        np.asarray(after.vectors, np.float64) - privatizer.table.embed(list(text.words))
        for text, after in zip(texts, released, strict=True)
    ]
    whole = np.concatenate(noise)
    fixed = np.random.default_rng(0).standard_normal(whole.shape[1])
    return {
        "length of the noise": np.linalg.norm(whole, axis=1),
        "direction of the noise": whole @ fixed,
        "direction beside the next": np.array(list(chain.from_iterable(map(_angles, noise)))),
    }


def _angles(noise: Values) -> Iterator[float]:
    """Yield the cosine of each word's noise and the next one's; no word is in two pairs."""
    for one, other in zip(noise[::2], noise[1::2], strict=False):
        yield float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-300))
