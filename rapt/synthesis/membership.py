"""What synthetic texts tell of single private ones: membership, and a lower bound on ε.

The attacker has the synthetic texts and a list of real ones. He scores how well the synthetic texts
fit each of these, and says of the best that the synthesizer read them (Meeus et al., 2025, The
Canary's Echo, arXiv 2502.14921). These figures are for the user alone, as those of `judged`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rapt.analysis.intervals import CONFIDENCE
from rapt.attacks.bigrams import Bigrams
from rapt.attacks.membership_scores import RATES, Ranking, intervals
from rapt.audit.one_run import lower_bound
from rapt.synthesis.judged import Texts
from rapt.utils.errors import RaptError

Scores = Mapping[str, NDArray[np.floating]]
# Of the canaries the shares with the highest scores, of which an attacker says that they are in.
GUESSED = (0.02, 0.1, 0.5)
FEWEST = 20  # canaries; of fewer all coins may fall on one side


class Canaries(NamedTuple):
    """Training texts for each of which a fair coin decides whether the synthesizer reads it.

    Attributes:
        rows: of the training split, int64 (m,). Their order is independent of the coins, so that
            equal scores favour neither side.
        is_in: what the coins say, bool (m,).
    """

    rows: NDArray[np.int64]
    is_in: NDArray[np.bool_]

    @classmethod
    def draw(cls, texts: int, canaries: int, rng: np.random.Generator) -> Canaries:
        """Draw canaries among n texts.

        Raises:
            RaptError: there are not as many texts, or so few canaries that none may be left out.
        """
        if canaries and not FEWEST <= canaries <= texts:
            raise RaptError(
                f"canaries: got {canaries} of {texts} training texts, expected 0, or {FEWEST} to "
                f"{texts}. About half of them are left out."
            )
        return cls(rng.permutation(texts)[:canaries], rng.random(canaries) < 0.5)

    def kept(self, texts: int) -> NDArray[np.int64]:
        """Return the rows that the synthesizer reads, of n: all but the canaries left out."""
        return np.delete(np.arange(texts), self.rows[~self.is_in])


def told(
    synthetic: Texts, train: Texts, test: Texts, canaries: Canaries, delta: float, encoder: str
) -> dict[str, Any]:
    """Return what `membership` does, of the canaries; and with any what `audit` does.

    Without canaries the training texts are told from the test texts. Then it plays a part, too,
    how the two splits differ.
    """
    if not canaries.rows.size:
        is_in = np.arange(len(train) + len(test)) < len(train)
        return {"membership": membership(scores(synthetic, [*train, *test], encoder), is_in)}
    found = scores(synthetic, [train[row] for row in canaries.rows], encoder)
    shown = audit(found, canaries.is_in, delta)
    return {"membership": membership(found, canaries.is_in), "audit": shown}


def scores(synthetic: Texts, candidates: Texts, encoder: str) -> Scores:
    """Score how well synthetic texts fit n real ones, by `nearest` and by `bigrams`, each (n,)."""
    from sklearn.metrics import pairwise_distances_argmin_min

    from rapt.privacy.mechanisms.encoders import model_encoder

    # Candidates first: how they are read then depends on no coin.
    vectors, others = map(model_encoder(encoder, cut=True), (candidates, synthetic))
    _, distances = pairwise_distances_argmin_min(vectors, others, metric="cosine")
    return {"nearest": -distances, "bigrams": likelihood(synthetic, candidates)}


def likelihood(synthetic: Texts, candidates: Texts) -> NDArray[np.float64]:
    """Return the mean of log P(v|w)/π(v) over the words v of each of n candidates, float64 (n,).

    P is a bigram model of the synthetic texts, and π how frequent words are among the candidates:
    without π the attacker would find plain texts instead of those that were read.
    """
    lower = [[word.lower() for word in text] for text in candidates]
    vocabulary = {word: row for row, word in enumerate(dict.fromkeys(w for t in lower for w in t))}
    rows = [np.array([vocabulary[word] for word in text], np.int64) for text in lower]
    prior = np.bincount(np.concatenate(rows), minlength=len(vocabulary)).astype(np.float64)
    prior /= prior.sum()
    read = ([vocabulary.get(word.lower(), -1) for word in text] for text in synthetic)
    bigrams = Bigrams.of((np.array(text, np.int64) for text in read), prior)
    single, edge = np.log(bigrams.single[:-2] / prior), [len(prior) + 1]
    found = []
    for text in rows:
        follows = bigrams.log_ratios(np.append(edge, text), np.append(text, edge)).diagonal()
        found.append((follows.sum() + single[text].sum()) / len(follows))
    return np.array(found)


def membership(found: Scores, is_in: NDArray[np.bool_]) -> dict[str, Any]:
    """Return how well each score tells the n candidates that were read, `is_in`, from the others.

    Of each figure there is the `value` and a 95 % interval over texts, `low` to `high`. A share at
    few false alarms is left out where the others are too few for one false alarm.
    """
    figures: dict[str, Any] = {"members": int(is_in.sum()), "others": int((~is_in).sum())}
    metrics = ["auc", *(name for name, rate in RATES.items() if figures["others"] * rate >= 1)]
    for name, of in found.items():
        ranking = Ranking.of(of[is_in].astype(np.float64), of[~is_in].astype(np.float64))
        values, limits = ranking.metrics(), intervals([ranking])
        figures[name] = {
            metric: {"value": values[metric], "low": limits[metric][0], "high": limits[metric][1]}
            for metric in metrics
        }
    return figures


def audit(found: Scores, is_in: NDArray[np.bool_], delta: float) -> dict[str, float]:
    """Return an ε that the synthesizer exceeds, with confidence 95 %, from scores of canaries.

    There is a bound of one run (Steinke et al., 2023) for each score and each share of GUESSED. The
    largest holds by Bonferroni's correction: it is `shown`. `most` is what all right guesses show.
    """
    m, sizes = len(is_in), [int(share * len(is_in)) for share in GUESSED]
    alpha = (1 - CONFIDENCE) / (len(found) * len(sizes))
    first = [np.argsort(-of, kind="stable") for of in found.values()]
    right = [(size, int(is_in[order[:size]].sum())) for order in first for size in sizes]
    shown, most = (
        max(lower_bound(m, size, of, delta, alpha) for size, of in guesses)
        for guesses in (right, [(size, size) for size in sizes])
    )
    return {"shown": shown, "most": most}
