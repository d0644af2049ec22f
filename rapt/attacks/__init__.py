"""Attacks on releases and on models that were tuned on them: a module a family, one registry."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field, SerializeAsAny

from rapt.attacks.attributes import AttributeEncoder, AttributeHidden, AttributeMlp, Authorship
from rapt.attacks.base import Attack
from rapt.attacks.bayesian import Bayesian, ContextualBayesian
from rapt.attacks.entities import Ner
from rapt.attacks.inversion import Averaging, MaskedToken, NearestNeighbour, NearestRow
from rapt.attacks.linkage import LikelihoodLinkage
from rapt.attacks.membership import Lira, MembershipLoss
from rapt.attacks.trained_inversion import Autoencoder, MlpInversion, TrainedReconstruction
from rapt.param_types import or_of, type_of
from rapt.utils.registry import Registry

_Own = Annotated[
    NearestNeighbour
    | Averaging
    | NearestRow
    | MlpInversion
    | Autoencoder
    | Bayesian
    | ContextualBayesian
    | TrainedReconstruction
    | MaskedToken
    | AttributeMlp
    | AttributeHidden
    | AttributeEncoder
    | Authorship
    | Ner
    | LikelihoodLinkage
    | MembershipLoss
    | Lira,
    Field(discriminator="type"),
]
# Another package adds one by an entry point of this group.
ATTACKS: Registry[type[Attack]] = Registry(
    "rapt.attacks", Attack, type_of, get_args(get_args(_Own)[0])
)
AnyAttack = Annotated[_Own, or_of(ATTACKS), SerializeAsAny()]
