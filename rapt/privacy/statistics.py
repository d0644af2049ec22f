"""Statistics of a mechanism over its own table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import repeat

import numpy as np
from scipy.stats import binomtest

from rapt.privacy.privatizer import Privatizer, Words
from rapt.privacy.streams import stream

FALSE_ALARM = 1e-6
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Replacement:
    """What happens to words of the table, drawn uniformly, in repeated draws.

    Attributes:
        replaced: mean probability of becoming another word; `replaced_low` and `replaced_high`
            are its 95 % confidence interval over words.
        n_w: median number of draws that leave the word as it is (plausible deniability).
        s_w: median number of distinct words that the draws give.
    """

    replaced: float
    replaced_low: float
    replaced_high: float
    n_w: float
    s_w: float


def replacement(privatizer: Privatizer, words: int, draws: int, seed: int) -> Replacement:
    """Draw `words` candidates, privatize each `draws` times (METHOD: statistics of a mechanism).

    The noise of a word is the same at every η but for its scale, so curves over η are smooth.
    """
    rng = stream(seed, "calibrate", "words")
    rows = rng.permutation(privatizer.candidates)[:words]
    groups = privatizer.groups_of_rows(rows)
    names = [privatizer.table.words[row] for row in rows]
    released = privatizer.privatize(
        Words(
            list(repeat(word, draws)),
            list(repeat(group, draws)),
            partial(stream, seed, "calibrate", word),
        )
        for word, group in zip(names, groups, strict=True)
    )
    kept, distinct = np.array(
        [(after.count(word), len(set(after))) for word, after in zip(names, released, strict=True)]
    ).T
    share = 1 - kept / draws
    error = NORMAL_95 * share.std(ddof=1) / np.sqrt(len(share))
    return Replacement(
        replaced=float(share.mean()),
        replaced_low=float(max(0, share.mean() - error)),
        replaced_high=float(min(1, share.mean() + error)),
        n_w=float(np.median(kept)),
        s_w=float(np.median(distinct)),
    )


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
    fewest = next(n for n in range(discordant + 1) if _plausible(n, discordant))
    return ReplayTest(
        words=len(pairs),
        replaced=sum(released),
        expected=sum(replayed),
        low=both + fewest,
        high=both + discordant - fewest,
    )


def _plausible(n: int, discordant: int) -> bool:
    return discordant == 0 or binomtest(n, discordant).pvalue > FALSE_ALARM
