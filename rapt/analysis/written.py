"""Scores of written texts against all references of each, by sacreBLEU (Post, 2018); from 0 to 1.

TER counts edits: less is better, and it may exceed 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF, TER

SAMPLES = 1000  # of the bootstrap
References = Sequence[Sequence[str]]


def scores(texts: Sequence[str], references: References) -> dict[str, float]:
    """Score texts: `bleu` (cased, tokenized as 13a), `bleu_lower`, `chrf` (chrF++) and `ter`.

    Args:
        texts: n texts.
        references: one or more for each of them.
    """
    streams = _streams(references)
    found = {"bleu": bleu(texts, references)}
    more = {"bleu_lower": BLEU(lowercase=True), "chrf": CHRF(word_order=2), "ter": TER()}
    return found | {n: of.corpus_score(texts, streams).score / 100 for n, of in more.items()}


def bleu(texts: Sequence[str], references: References) -> float:
    """Return the BLEU of texts, cased and tokenized as 13a, against all references of each."""
    return float(BLEU().corpus_score(texts, _streams(references)).score) / 100


def _streams(references: References) -> Any:
    """Return the first reference of each text, then the second, as sacreBLEU takes them."""
    return [list(stream) for stream in zip_longest(*references)]


def signature() -> str:
    """Return sacreBLEU's description of `bleu`, with its version."""
    metric = BLEU()
    metric.corpus_score(["a", "b"], [["a", "b"], ["c", ""]])
    return str(metric.get_signature()).replace("nrefs:2", "nrefs:var")


def by_group(
    texts: Sequence[str], references: References, groups: Sequence[str | None]
) -> dict[str, float]:
    """Return the `scores` of all texts, and the BLEU of each group, as `bleu_of_GROUP`."""
    found = scores(texts, references)
    for name in sorted({group for group in groups if group is not None}):
        rows = [row for row, group in enumerate(groups) if group == name]
        own = [texts[row] for row in rows]
        found[f"bleu_of_{name}"] = bleu(own, [references[row] for row in rows])
    return found


def interval(written: Sequence[Sequence[str]], references: References) -> tuple[float, float]:
    """Return the 95 % interval of the mean BLEU over seeds, by resampling texts (Koehn, 2004).

    Args:
        written: n texts of each seed.
        references: of the n texts.
    """
    counts = np.array([_counts(texts, references) for texts in written])
    rng = np.random.default_rng(0)
    size = counts.shape[1]
    means = [
        np.mean([_bleu(seed[rows].sum(0)) for seed in counts])
        for rows in (rng.integers(size, size=size) for _ in range(SAMPLES))
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def one_against_the_others(references: References) -> float:
    """Return the BLEU of each example's last reference against its others, where it has any."""
    several = [each for each in references if len(each) > 1]
    if not several:
        return float("nan")
    return bleu([each[-1] for each in several], [each[:-1] for each in several])


def recall(texts: Sequence[str], entities: Sequence[Sequence[str]]) -> float:
    """Return the share of entities that the texts mention word for word, whatever their case."""
    found = [
        re.search(rf"(?<!\w){re.escape(entity.casefold())}(?!\w)", text.casefold()) is not None
        for text, own in zip(texts, entities, strict=True)
        for entity in own
    ]
    return float(np.mean(found)) if found else float("nan")


def _counts(texts: Sequence[str], references: References) -> NDArray[np.int64]:
    """Return what BLEU adds up: matches and n-grams of four orders, both lengths, (n, 10)."""
    metric = BLEU(effective_order=True)
    each = [metric.sentence_score(text, own) for text, own in zip(texts, references, strict=True)]
    return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in each])


def _bleu(sums: NDArray[np.int64]) -> float:
    correct, total = sums[:4].tolist(), sums[4:8].tolist()
    of = BLEU.compute_bleu(correct, total, int(sums[8]), int(sums[9]), smooth_method="exp")
    return float(of.score) / 100
