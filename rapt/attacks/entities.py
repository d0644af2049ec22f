"""How many of the entities that texts name an attacker finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
from seqeval.metrics.sequence_labeling import get_entities

from rapt.attacks.base import Texts
from rapt.attacks.scores import Scores


def entity_scores(truth: Texts, guesses: Texts) -> Scores:
    """Compare BIO tags, one for each word: precision, recall and F1, micro averages as of CoNLL.

    An entity is its type with its first and its last word. F1 is 2·TP / (2·TP + FP + FN).
    """
    pairs = [
        [set(get_entities(list(tags))) for tags in text]
        for text in zip(truth, guesses, strict=True)
    ]
    counts = [(len(own), len(guess), len(own & guess)) for own, guess in pairs]
    named, guessed, right = np.array(counts, np.int64).reshape(-1, 3).T
    ratios = {
        "precision": (right, guessed),
        "recall": (right, named),
        "f1": (2 * right, guessed + named),
    }
    return Scores(ratios, {"empirical_privacy": "f1"})


def entities_named(texts: Texts) -> int:
    """Count the entities that BIO tags name."""
    return sum(len(set(get_entities(list(tags)))) for tags in texts)


def blind(truth: Texts) -> float:
    """The F1 of who takes every word for an entity of its own, all of the type that does best."""
    entities = [entity for text in truth for entity in get_entities(list(text))]
    single = Counter(kind for kind, first, last in entities if first == last)
    guessed = sum(map(len, truth))
    return 2 * max(single.values(), default=0) / max(1, guessed + len(entities))
