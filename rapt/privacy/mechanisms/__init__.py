"""The registry of mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

from rapt.privacy.mechanisms.base import Mechanism, Sampler, Space, VectorMechanism, WordMechanism
from rapt.privacy.mechanisms.exponential import CusText, SanText, SanTextPlus, Tem
from rapt.privacy.mechanisms.gumbel import TruncatedGumbel
from rapt.privacy.mechanisms.noise import PCT2T, T2T, Mahalanobis, RankNeighbours, Vickrey
from rapt.privacy.mechanisms.optimal import Optimal
from rapt.privacy.mechanisms.vectors import Adept, SequenceRepresentation, TokenRepresentation
from rapt.utils.errors import RaptError, not_allowed

__all__ = [
    "MECHANISMS",
    "PCT2T",
    "T2T",
    "WORDWISE",
    "Mechanism",
    "Sampler",
    "Space",
    "TokenRepresentation",
    "VectorMechanism",
    "WordMechanism",
    "Wordwise",
    "mechanism",
    "parameters",
    "word_mechanism",
    "wordwise_mechanism",
]

# A mechanism of which each word of a text becomes a word: by itself, or as the one nearest to the
# vector that is released for it.
Wordwise = WordMechanism | TokenRepresentation

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        T2T,
        PCT2T,
        Mahalanobis,
        Vickrey,
        RankNeighbours,
        Tem,
        SanText,
        SanTextPlus,
        CusText,
        TruncatedGumbel,
        Optimal,
        TokenRepresentation,
        SequenceRepresentation,
        Adept,
    )
}
# Names of those that release words; of those whose release has a word for each word.
WORDS = [name for name, kind in MECHANISMS.items() if kind.releases == "words"]
WORDWISE = [
    name
    for name, kind in MECHANISMS.items()
    if issubclass(kind, WordMechanism | TokenRepresentation)
]


def mechanism(type: str, **given: Any) -> Mechanism:
    """The mechanism of a name with these parameters; others have the paper's values.

    Raises:
        RaptError: there is no such mechanism or parameter, or a value is not allowed.
    """
    if type not in MECHANISMS:
        raise RaptError(not_allowed("mechanism", type, MECHANISMS))
    kind = MECHANISMS[type]
    names = [field.name for field in fields(kind)]
    for name in given:
        if name not in names:
            raise RaptError(not_allowed(f"mechanism {type}", name, names))
    return kind(**given)


def word_mechanism(type: str, **given: Any) -> WordMechanism:
    """The same, of those that release words.

    Raises:
        RaptError: as `mechanism`, or it releases vectors.
    """
    return cast(WordMechanism, _among(WORDS, type, **given))


def wordwise_mechanism(type: str, **given: Any) -> Wordwise:
    """The same, of those that release words or a vector for each word.

    Raises:
        RaptError: as `mechanism`, or it releases one vector for a text.
    """
    return cast(Wordwise, _among(WORDWISE, type, **given))


def _among(names: Sequence[str], type: str, **given: Any) -> Mechanism:
    if type not in names:
        raise RaptError(not_allowed("mechanism", type, names))
    return mechanism(type, **given)


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism, by name."""
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
