"""Attacks on releases and on what is tuned on them: one module each, and their registry."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field, SerializeAsAny

from rapt.attacks.attribute_encoder import AttributeEncoder
from rapt.attacks.attribute_hidden import AttributeHidden
from rapt.attacks.attribute_mlp import AttributeMlp
from rapt.attacks.authorship import Authorship
from rapt.attacks.autoencoder import Autoencoder
from rapt.attacks.averaging import Averaging
from rapt.attacks.base import Attack
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.bayesian_in_context import ContextualBayesian
from rapt.attacks.lira import Lira
from rapt.attacks.masked_token import MaskedToken
from rapt.attacks.membership import MembershipLoss
from rapt.attacks.mlp_inversion import MlpInversion
from rapt.attacks.nearest import NearestNeighbour
from rapt.attacks.ner import Ner
from rapt.attacks.trained_reconstruction import TrainedReconstruction
from rapt.param_types import or_of, type_of
from rapt.utils.registry import Registry

_Own = Annotated[
    NearestNeighbour
    | Averaging
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
    | MembershipLoss
    | Lira,
    Field(discriminator="type"),
]
# Another package adds one by an entry point of this group.
ATTACKS: Registry[type[Attack]] = Registry(
    "rapt.attacks", Attack, type_of, get_args(get_args(_Own)[0])
)
AnyAttack = Annotated[_Own, or_of(ATTACKS), SerializeAsAny()]
