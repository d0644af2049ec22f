"""Bayesian inversion by an attacker who has read public text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rapt.attacks.base import Inversion, Inverter, Pairs, Public, Release, Texts
from rapt.attacks.bayesian import Copies, Prior, posterior
from rapt.param_types import Names

if TYPE_CHECKING:
    from rapt.attacks.bigrams import Bigrams
    from rapt.privacy.posterior import Posterior


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
