"""The privacy statement of a synthetic release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rapt.synthesis.base import Made, Synthesizer

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable

PROTECTION = "({epsilon:g}, {delta:g})-differential privacy of one training text"
GUARANTEE = (
    "Texts are made of the training split by a mechanism M with P[M(D) in S] <= exp({epsilon:g}) * "
    "P[M(D') in S] + {delta:g} for all S, and all D, D' of which one has a text with its label "
    "more than the other. This is the law of one copy, of which there {are}."
)
NOT_COVERED = (
    "The number of training texts, the names of the classes and the prompts, which are public.",
    "Authors of several texts: losses add up over their texts.",
    "Copies add up: whoever has k of them has k times the loss.",
    "The test split, whose texts are the real ones: it stays with the user, for the score.",
    "Settings that were chosen by looking at private texts, and the figures of how near the "
    "synthetic texts come to them and of what they tell of each.",
    "Questions to a model that is tuned on it: they are sent as they are.",
    "Texts that the language model has read before: it may repeat them whatever epsilon is.",
    "The seed of params.yaml: whoever knows it can draw the noise again.",
)


def statement(
    how: Synthesizer,
    epsilon: str,
    made: Sequence[Made],
    table: EmbeddingTable,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Build the statement of a synthetic release, with the keys of every statement (docs/data.md).

    Questions to a model that is tuned on it are asked as of clean text: so say mechanism and η.

    Args:
        how: the synthesizer.
        epsilon: ε as the user wrote it.
        made: the copies.
        table: of the words that questions have.
        facts: fields that the release itself decides (task, method, embedding, …).
    """
    law = {"epsilon": float(epsilon), "delta": how.delta}
    copies = "is one" if len(made) == 1 else f"are {len(made)}"
    return {
        **facts,
        "mechanism": "t2t",
        "parameters": {},
        "categories": None,
        "eta": "inf",
        "table_sha256": table.sha256,
        "metric": "none: data sets are neighbours or are not",
        "protection": PROTECTION.format(**law),
        "claim": {
            "domain": "data sets of which one has a text more than the other",
            "unit": "one training text",
            "delta": how.delta,
            "conditions": [],
            "proof": ["docs/synthetic-text.md#the-guarantee"],
        },
        "guarantee": GUARANTEE.format(**law, are=copies),
        "not_covered": list(NOT_COVERED),
        "columns": [],
        "spacing": "none is released",
        "generator": "Philox and PyTorch's, seeded by params.yaml, for experiments: whoever knows "
        "the seed can draw the noise again",
        "seeds": len(made),
        "documents": None,
        "words": None,
        "names": None,
        "mentions": None,
        "budget_of_the_longest": None,
        "strength": None,
        "plain_tokens": None,
        "vocabulary": None,
        "synthesizer": {
            **law,
            "type": how.type,
            "of_counts": how.counts * float(epsilon),
            "of_texts": made[0].spent,
            "canaries": how.canaries,
            "texts": [[len(own) for own in copy.texts] for copy in made],
            "empty": [copy.empty for copy in made],
        },
    }
