"""The registry of mechanisms."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from rapt.privacy.mechanisms.base import Mechanism, WordMechanism
from rapt.privacy.mechanisms.base import RewritingMechanism as RewritingMechanism
from rapt.privacy.mechanisms.base import Sampler as Sampler
from rapt.privacy.mechanisms.base import Space as Space
from rapt.privacy.mechanisms.base import TextVectorMechanism as TextVectorMechanism
from rapt.privacy.mechanisms.base import VectorMechanism as VectorMechanism
from rapt.privacy.mechanisms.base import WordVectorMechanism as WordVectorMechanism
from rapt.privacy.mechanisms.exponential import CusText, SanText, SanTextPlus, Tem
from rapt.privacy.mechanisms.gumbel import TruncatedGumbel
from rapt.privacy.mechanisms.hidden_states import (
    DpForward,
    DpForwardAsCoded,
    PrivTune,
    Sap,
    Split,
)
from rapt.privacy.mechanisms.noise import PCT2T, T2T, Mahalanobis, RankNeighbours, Vickrey
from rapt.privacy.mechanisms.optimal import Optimal
from rapt.privacy.mechanisms.sphere import Gaussian, Purkayastha, SphereNoise, VonMisesFisher
from rapt.privacy.mechanisms.text_vectors import (
    Cape,
    CapeAsCoded,
    CapeAsWritten,
    Dpnr,
    DpnrAsCoded,
    DpnrAsWritten,
    Federate,
    FederateAsCoded,
    Ome,
    OmeAsWritten,
)
from rapt.privacy.mechanisms.tokens import TokenT2T
from rapt.privacy.mechanisms.vectors import (
    Adept,
    SequenceRepresentation,
    SplitNDenoise,
    TokenRepresentation,
)
from rapt.utils.errors import RaptError, not_allowed
from rapt.utils.registry import Registry

# Another package adds one by an entry point of this group.
MECHANISMS: Registry[type[Mechanism]] = Registry(
    "rapt.mechanisms",
    Mechanism,
    lambda kind: kind.name,
    (
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
        TokenT2T,
        TokenRepresentation,
        SplitNDenoise,
        SequenceRepresentation,
        Adept,
        VonMisesFisher,
        Purkayastha,
        SphereNoise,
        Gaussian,
        Cape,
        CapeAsWritten,
        CapeAsCoded,
        Dpnr,
        DpnrAsWritten,
        DpnrAsCoded,
        Federate,
        FederateAsCoded,
        Ome,
        OmeAsWritten,
        Split,
        Sap,
        PrivTune,
        DpForward,
        DpForwardAsCoded,
    ),
)


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
    """Return a mechanism of words, by its type.

    Raises:
        RaptError: as `mechanism`, or it releases no words of a channel.
    """
    if type not in MECHANISMS or not issubclass(MECHANISMS[type], WordMechanism):
        names = [name for name, kind in MECHANISMS.items() if issubclass(kind, WordMechanism)]
        raise RaptError(not_allowed("mechanism", type, names))
    return cast(WordMechanism, mechanism(type, **given))


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism, by name."""
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
