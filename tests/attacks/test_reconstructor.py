"""The scores of the reconstruction, before it has learnt anything and after one step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rapt.attacks.base import Release
from rapt.attacks.bayesian import posterior
from rapt.attacks.reconstructor import LEAST
from rapt.text.table import EmbeddingTable
from tests.attacks.test_trained_reconstruction import LENGTH, NONE, V, attack, public
from tests.attacks.test_trained_reconstruction import encoder as encoder


def test_untrained_it_decides_by_channel_and_frequency(
    table: EmbeddingTable, encoder: Path
) -> None:
    """Also of a word that is no candidate, which is then taken as it is, and of a long text."""
    counts = np.random.default_rng(0).integers(1, 100, (V, V)) + 100 * np.eye(V, dtype=int)
    known = public(table, LENGTH, counts)
    release = [Release([[*table.words, "unseen"], [], table.words * 10])]
    found = posterior(known, "public", [])
    unmet = np.outer(found.overall, np.maximum(found.rest, LEAST))
    chances = (found.leads.toarray() + unmet) * table.counts(text.words for text in known.texts)
    likely = dict(zip(table.words, np.array(table.words)[chances.argmax(axis=1)], strict=True))
    bayes = [[likely.get(word, word) for word in text] for text in release[0].words]
    untrained = attack(encoder, words=1, learning_rate=1e-12).fit(known, NONE, 0)
    assert untrained.words(release) == bayes
    few = attack(encoder, words=1, learning_rate=1e-12, candidates=3).fit(known, NONE, 0)
    alone = Release([[word] for word in table.words])
    pairs = zip(alone.words, few.words([alone]), strict=True)
    others = {guess for (word,), (guess,) in pairs if guess != word}
    assert 0 < len(others) <= 3
    trained, again = (
        attack(encoder, words=1, learning_rate=0.1).fit(known, NONE, 0).words(release)
        for _ in range(2)
    )
    assert trained == again != bayes
