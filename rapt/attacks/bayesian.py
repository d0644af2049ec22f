"""Bayesian inversion by an attacker who knows the mechanism, word by word or in context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from rapt.attacks.base import (
    Inversion,
    Inverter,
    Occurrence,
    Pairs,
    Public,
    Release,
    Texts,
    by_text,
)
from rapt.param_types import Names

if TYPE_CHECKING:
    from rapt.attacks.bigrams import Bigrams
    from rapt.privacy.posterior import Posterior
    from rapt.text.table import EmbeddingTable

Prior = Annotated[
    Literal["public", "release"],
    Field(description="how frequent words are: in public text, or fitted to the release too"),
]
Copies = Annotated[
    PositiveInt, Field(description="releases of the same texts that the attacker has")
]


class Bayesian(Inversion):
    """The most likely original of each released word: argmax P(y|w)·π(w).

    With the true π it is optimal among attackers who look at one word at a time (`upper_bound`).
    For several releases of the same texts the P(y|w) multiply; each release costs η again.
    """

    source = "Tong et al., 2024 (arXiv 2410.17052)"
    attacker_knowledge = "the mechanism with its eta, how frequent words are in public text"
    reads_channel = True

    type: Literal["bayesian"]
    prior: Prior = "release"
    copies: Copies = 1

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn nothing yet: the prior is fitted to the attacked release itself."""

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            return likeliest(posterior(public, self.prior, copies), public.table, copies)

        return Inverter(invert)

    def upper_bounds(self, public: Public, words: Mapping[Occurrence, int]) -> dict[str, float]:
        """Return the bound for a single release; for several none is known."""
        from rapt.attacks.upper_bound import upper_bound

        if self.copies > 1:
            return {}
        return {"accuracy_protected": upper_bound(public, words)}


def posterior(public: Public, prior: str, copies: Sequence[Release]) -> Posterior:
    """Compute P(w|y) of some releases, under the prior that an attack's parameter names."""
    from rapt.privacy.posterior import Posterior

    assert public.channel
    every = [text for copy in copies for text in copy.words]
    counts = public.table.counts(every) if prior == "release" else None
    found = Posterior.of(public.channel, public.table.frequency, public.groups, counts)
    # A word without a public count is taken as it is; other copies would tell its original.
    if prior == "public" and len(copies) == 1:
        return found.restricted(public.table.frequency > 0)
    return found


def likeliest(
    posterior: Posterior, table: EmbeddingTable, copies: Sequence[Release]
) -> list[list[str]]:
    """Return the most likely original of each word, given its released word in each copy."""
    flat = [list(chain.from_iterable(copy.words)) for copy in copies]
    seen = list(zip(*flat, strict=True))
    distinct = [pair for pair in dict.fromkeys(seen) if (table.rows(pair) >= 0).all()]
    rows = np.array([table.rows(pair) for pair in distinct], np.int64)
    modes = posterior.modes(rows.reshape(-1, len(copies)))
    likely = {p: table.words[w] for p, w in zip(distinct, modes, strict=True) if w >= 0}
    return by_text(copies[0].words, (likely.get(pair, pair[0]) for pair in seen))


class ContextualBayesian(Inversion):
    """The most likely original of each word, given the whole released text.

    Words follow each other as in public text (`Bigrams`), and each is released by the channel. The
    likeliest word of each place has the largest marginal. That recovers most words if the model of
    the text is true. Without public text it is `bayesian`.
    """

    source = "ours, after Tong et al., 2025 (NAACL)"
    attacker_knowledge = "what bayesian knows, public texts"
    reads_channel = True

    type: Literal["bayesian-in-context"]
    public_text: Names = Field(min_length=1, description="tasks whose training rows it has read")
    prior: Prior = "release"
    copies: Copies = 1

    def fit(self, public: Public, own: Pairs, seed: int) -> Inverter:
        """Learn nothing yet: rare pairs of words fall back on a prior, fitted to the release."""
        from rapt.attacks.bigrams import Bigrams

        table = public.table
        rows = [table.rows(map(table.form, text.words)) for text in public.texts]

        def invert(copies: Sequence[Release]) -> list[list[str]]:
            found = posterior(public, self.prior, copies)
            # A word that is never replaced has no part in π. It is seen, so that any will do.
            prior = np.maximum(found.prior, found.prior[found.prior > 0].min(initial=1.0))
            read = _Reader(found, public, Bigrams.of(rows, prior / prior.sum()))
            return [read(texts) for texts in zip(*(copy.words for copy in copies), strict=True)]

        return Inverter(invert)


class _Reader:
    """Reads a text in its context."""

    def __init__(self, posterior: Posterior, public: Public, bigrams: Bigrams) -> None:
        self._posterior, self._public, self._bigrams = posterior, public, bigrams
        self._noisy = np.asarray(posterior.leads.sum(axis=1)) > 0

    def __call__(self, copies: Texts) -> list[str]:
        """Return the likeliest originals of a text, given its words in each copy."""
        table = self._public.table
        rows = np.stack([table.rows(words) for words in copies], axis=1)
        noisy = np.min((rows >= 0) & self._noisy[rows], axis=1).tolist()
        emissions = [
            np.prod([self._emission(row) for row in of], axis=0) if hidden else self._seen(word)
            for of, hidden, word in zip(rows, noisy, copies[0], strict=True)
        ]
        best = self._bigrams.marginals(emissions)[:, : len(table.words)].argmax(axis=1)
        places = zip(copies[0], noisy, best, strict=True)
        return [table.words[row] if hidden else word for word, hidden, row in places]

    def _emission(self, row: int) -> NDArray[np.float64]:
        """How likely each state is released as a word, which a word outside the table may be."""
        found, groups = self._posterior, self._public.groups
        share = found.overall[row]
        chances = np.where(groups == groups[row], found.rest * share, 0)
        span = slice(*found.leads.indptr[row : row + 2])
        chances[found.leads.indices[span]] += found.leads.data[span]
        return np.concatenate((chances, [share, 0]))

    def _seen(self, word: str) -> NDArray[np.float64]:
        """The state of a word that is released as it is."""
        (row,) = self._public.table.rows([self._public.table.form(word)])
        chances = np.zeros(len(self._public.table.words) + 2)
        chances[row if row >= 0 else -2] = 1
        return chances
