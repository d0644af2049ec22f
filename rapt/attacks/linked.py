"""How often releases of public texts are linked to their originals."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rapt.attacks.base import Pairs, Release
from rapt.attacks.linkage import LikelihoodLinkage
from rapt.attacks.scores import linkage_scores
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.channel import NORMAL_95, Share
from rapt.privacy.posterior import prior_of
from rapt.privacy.streams import stream

# Texts of words drawn by public frequency: all as long, so that their length links none.
CANDIDATES, VICTIMS, OWN, WORDS = 1000, 200, 200, 20


def linked(privatizer: AnyPrivatizer[Any], seed: int) -> Share:
    """Measure how often a release of a public text is linked to it, of CANDIDATES texts.

    The noise is the same at every η but for its scale. Wilson's interval (1927).
    """
    texts = _texts(privatizer, seed, CANDIDATES + OWN)
    candidates, own = texts[:CANDIDATES], texts[CANDIDATES:]
    victims, known = (Release.of(privatizer.release(some)) for some in (candidates[:VICTIMS], own))
    spelled = [[*map(privatizer.table.form, text.words)] for text in own]
    match = LikelihoodLinkage(type="linkage").fit(privatizer, Pairs(spelled, known), seed)
    share = linkage_scores(match(victims, candidates), seed).metrics()["linked"]
    middle, scale = share + NORMAL_95**2 / (2 * VICTIMS), 1 + NORMAL_95**2 / VICTIMS
    reach = NORMAL_95 * np.sqrt(share * (1 - share) / VICTIMS + (NORMAL_95 / VICTIMS / 2) ** 2)
    ends = np.clip([(middle - reach) / scale, (middle + reach) / scale], 0, 1)
    return Share(share, *ends.tolist())


def _texts(privatizer: AnyPrivatizer[Any], seed: int, count: int) -> list[PreparedText]:
    table, rng = privatizer.table, stream(seed, "linked", "texts")
    chances = prior_of(table.frequency)
    rows = rng.choice(len(table.words), (count, WORDS), p=chances / chances.sum())
    return [
        privatizer.text(
            [table.words[row] for row in text],
            [table.pos[row][0] for row in text],
            stream=partial(stream, seed, "linked", place),
        )
        for place, text in enumerate(rows)
    ]
