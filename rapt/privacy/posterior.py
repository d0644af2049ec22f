"""The posterior P(w|y): which word a released word was, as far as anyone can tell from it alone.

Whoever knows the mechanism knows its channel P(y|w), and how frequent a word is in public text is
known too. By Bayes' rule, for the words w of the table that the mechanism protects,

    P(w|y) = P(y|w)·π(w) / Σ_v P(y|v)·π(v)

with π the table's unigram frequency; words of unknown frequency count as the rarest known one. The
texts of a release are rarely like public text, so π may be fitted to how often the release has each
word y. The fitted π is the one near public text that explains the release best. Either is
computed from what is public and from the release, so it costs no privacy (post-processing). The
Bayesian attacker takes the mode of P(w|y) (Tong et al., 2024), the best predictor goes through all
of it (RAPT, Theorem VI.1).

A word drawn once is no measure of how likely it is. Of a thousand unlikely ones, whichever chance
drew has 1/n, the others nothing: the mode of P(w|y) is then an accident. So the draws are
discounted, but for those of the word itself (`_discounted`).

Three approximations. The channel is estimated for some words w alone. Any other is counted as
itself only, with P(w|w) the mean over the channel's words of its group. Each word is taken to be of
the group that the table has it in, whatever its tag in a text. Words outside the table, which the
mechanism replaces too, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from rapt.privacy.categories import VERBATIM
from rapt.privacy.channel import Channel, Rows

TINY = np.finfo(float).tiny
AT_ONCE = 10_000  # released words whose originals are looked for together
ROUNDS = 30  # of the fit; each leaves at most about half of what is missing, as half of π is fixed


@dataclass(frozen=True, eq=False)
class Posterior:
    """P(w|y) over a table of V words.

    Attributes:
        leads: P(y|w) as the draws have it, float64 (V, V), a row for each y.
        rest: what a column of it lacks of 1, float64 (V,): w leads to words that no draw met.
        overall: the share of the rest that each word y of a group is taken to have, float64 (V,).
            It is by how many words led there (Kneser and Ney, 1995).
        prior: π, float64 (V,).
        group: of each word, int64 (V,).
    """

    leads: csr_array
    rest: NDArray[np.float64]
    overall: NDArray[np.float64]
    prior: NDArray[np.float64]
    group: NDArray[np.int64]

    @cached_property
    def matrix(self) -> csr_array:
        """P(w|y), float64 (V, V), a row for each released word y, which sums to 1.

        It is empty where there is no posterior. Either y is no candidate of the mechanism, and so
        a word as it was, or nothing known of the channel leads to it.
        """
        joint = csr_array(self.leads @ diags_array(self.prior))
        totals = np.asarray(joint.sum(axis=1), np.float64)
        return csr_array(diags_array(1 / np.where(totals > 0, totals, 1)) @ joint)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The table's rows of the words y that have a posterior, ascending, int64."""
        return np.flatnonzero(np.diff(self.matrix.indptr)).astype(np.int64)

    def restricted(self, known: NDArray[np.bool_]) -> Posterior:
        """Without a posterior of the released words y, bool (V,), that are not known."""
        leads = csr_array(diags_array(known.astype(np.float64)) @ self.leads)
        return replace(self, leads=leads, overall=self.overall * known)

    def modes(self, released: NDArray[np.int64]) -> NDArray[np.int64]:
        """The most likely w behind words y that are independent releases of it.

        P(w|y, y', …) ∝ π(w)·P(y|w)·P(y'|w)·…, P(y|w) with its share of the rest.

        Args:
            released: rows of the table, int64 (n, k).

        Returns:
            rows, int64 (n,); -1 where there is no posterior.
        """
        parts = [
            self._modes(released[start : start + AT_ONCE])
            for start in range(0, len(released), AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _modes(self, released: NDArray[np.int64]) -> NDArray[np.int64]:
        each = [self.leads[rows] for rows in released.T]
        met = csr_array(sum(each[1:], each[0])) > 0
        score = met @ diags_array(self.prior)
        for known, rows in zip(each, released.T, strict=True):
            rest = diags_array(self.overall[rows]) @ met @ diags_array(self.rest)
            score = score.multiply(known + rest)
        score = csr_array(score)
        likeliest = np.asarray(score.argmax(axis=1), np.int64).ravel()
        best = score.max(axis=1).toarray().ravel()
        # Of the words that no draw led to any of them the best is that of the group. If a draw did
        # lead it there, its score above is no less.
        unmet = self.prior * self.rest ** released.shape[1]
        order = np.lexsort((-unmet, self.group))
        groups, first = np.unique(self.group[order], return_index=True)
        own = self.group[released]
        top = order[first[np.searchsorted(groups, own[:, 0])]]
        shares = np.where(own == own[:, :1], self.overall[released], 0)
        other = unmet[top] * shares.prod(axis=1)
        return np.where(np.maximum(best, other) > 0, np.where(other > best, top, likeliest), -1)

    @classmethod
    def of(
        cls,
        channel: Channel,
        frequency: NDArray[np.float64],
        groups: Sequence[int] | NDArray[np.int64],
        released: NDArray[np.int64] | None = None,
    ) -> Posterior:
        """Apply Bayes' rule to a channel.

        All of the channel's words count, sampled ones as well as frequent ones. Each is weighed by
        its own frequency, so it does not matter why it was chosen.

        Args:
            channel: P(y|w) of some of the words.
            frequency: of each of the V words in public text, float64 (V,), 0 where unknown.
            groups: of each word the group that it is replaced in (`Privatizer.groups_of_rows`);
                VERBATIM: it is released as it is.
            released: how often a release has each word, int64 (V,), to fit π to; None: π is the
                public frequency.
        """
        group = np.asarray(groups, np.int64)
        leads = _leads(channel, group)
        known = np.asarray(leads.sum(axis=0), np.float64)
        prior = np.where(known > 0, prior_of(frequency), 0)
        prior = prior / max(prior.sum(), TINY)
        rest = np.where(known > 0, np.maximum(0, 1 - known), 0)
        ways = np.where(known > 0, np.maximum(1, np.diff(leads.indptr)), 0)
        overall = ways / np.maximum(_sums(ways, group), 1)
        posterior = cls(leads, rest, overall, prior, group)
        counts = np.where(known > 0, 0 if released is None else released, 0)
        return posterior._fitted(counts / counts.sum(), group) if counts.any() else posterior

    def _fitted(self, share: NDArray[np.float64], group: NDArray[np.int64]) -> Posterior:
        """With the π under which the release is likely, kept near public text.

        The iterative Bayesian update (Agrawal and Aggarwal, 2001): π becomes what P(w|y) makes of
        the release, again and again. Left to itself it fits the chance of few draws and few texts.
        So as many words of public text are counted beside those of the release. The result is the
        mode of π's posterior under a Dirichlet prior.

        Args:
            share: how frequent each word is in the release, float64 (V,), 1 in sum.
            group: of each word.
        """
        prior = self.prior
        for _ in range(ROUNDS):
            given = self.leads @ prior + _sums(self.rest * prior, group) * self.overall
            ratio = np.divide(share, given, out=np.zeros_like(share), where=given > 0)
            seen = self.leads.T @ ratio + self.rest * _sums(self.overall * ratio, group)
            prior = (prior * seen + self.prior) / 2
        return replace(self, prior=prior)


def _sums(values: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each word the sum over its group."""
    return np.bincount(group - VERBATIM, values)[group - VERBATIM].astype(np.float64)


def draws(frequency: NDArray[np.float64], rows: Rows, shared: int) -> Rows:
    """Draws on top of each word of a channel that a posterior is made of, int64 (n,).

    With equally many draws of each, one that a very frequent word happens to give outweighs all
    that leads to a rare y otherwise. Here each adds at most Σπ / shared to P(y|w)·π(w), the sum
    over the channel's words.

    Args:
        frequency: of each word of the table, float64 (V,), 0 where unknown.
        rows: of the channel's words, int64 (n,), ascending.
        shared: draws in all, shared out by how frequent the words are.
    """
    weight = prior_of(frequency)[rows]
    return np.ceil(shared * (weight / weight.sum())).astype(np.int64)


def _leads(channel: Channel, group: NDArray[np.int64]) -> csr_array:
    """P(y|w) as far as it is known, float64 (V, V), a row for each y."""
    channel = channel.of(group[channel.rows] != VERBATIM)
    others = np.setdiff1d(np.flatnonzero(group != VERBATIM), channel.rows)
    known = coo_array(diags_array(1 / channel.draws) @ _discounted(channel))
    itself = _keep_rates(channel, group)[group[others]]
    found = csr_array(
        (
            np.concatenate((known.data, itself)),
            (
                np.concatenate((known.col, others)),
                np.concatenate((channel.rows[known.row], others)),
            ),
        ),
        shape=(len(group), len(group)),
    )
    found.eliminate_zeros()
    return found


def _discounted(channel: Channel) -> csr_array:
    """Discount the counts of the draws for chance, float64 (n, V).

    Absolute discounting (Ney, Essen and Kneser, 1994) subtracts D = n1 / (n1 + 2·n2) from each
    count of a word. Here n1 and n2 are the numbers of words that were drawn once and twice for it.
    With many draws n1 is 0, and so is D. With few draws D is most of a count. The count of the word
    itself keeps its value, as its own release is no accident among thousands.
    """
    counts = channel.counts
    words = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    once, twice = (
        np.bincount(words[counts.data == times], minlength=counts.shape[0]) for times in (1, 2)
    )
    discount = once / np.maximum(once + 2 * twice, 1)
    lost = np.where(counts.indices == channel.rows[words], 0, discount[words])
    return csr_array((counts.data - lost, counts.indices, counts.indptr), counts.shape)


def prior_of(frequency: NDArray[np.float64]) -> NDArray[np.float64]:
    """π, positive everywhere; uniform where the table knows no frequency at all."""
    known = frequency[frequency > 0]
    return np.where(frequency > 0, frequency, known.min() if len(known) else 1.0)


def _keep_rates(channel: Channel, group: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each group the mean P(w|w) of its words in the channel; without any, that of all."""
    kept = channel.kept / channel.draws
    own = group[channel.rows]
    rates = np.full(group.max(initial=-1) + 1, kept.mean() if len(kept) else 1.0)
    for number in np.unique(own):
        rates[number] = kept[own == number].mean()
    return rates
