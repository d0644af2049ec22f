"""Exact tests of a release against its mechanism."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from scipy.stats import binomtest

FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class ReplayTest:
    """Whether a release replaced as many words as its mechanism does.

    The same words are privatized a second time, independently: where a word is replaced in one and
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


def replay_test(released: list[bool], replayed: list[bool]) -> ReplayTest:
    """Compare which words a release and a replay replaced."""
    pairs = list(zip(released, replayed, strict=True))
    discordant = sum(a != b for a, b in pairs)
    both = sum(a and b for a, b in pairs)
    # `replaced` = both + (discordant words replaced in the release), Binomial(discordant, 1/2).
    # Its p-value rises up to the middle.
    lower = range(discordant // 2 + 1)
    fewest = bisect_left(lower, True, key=lambda n: _plausible(n, discordant))
    return ReplayTest(
        words=len(pairs),
        replaced=sum(released),
        expected=sum(replayed),
        low=both + fewest,
        high=both + discordant - fewest,
    )


def _plausible(n: int, discordant: int) -> bool:
    return discordant == 0 or bool(binomtest(n, discordant).pvalue > FALSE_ALARM)
