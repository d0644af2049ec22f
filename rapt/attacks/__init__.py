"""Attacks on releases and on what is tuned on them: one module each, and their registry."""

from __future__ import annotations

from rapt.attacks.attribute import AttributeHidden, AttributeMlp, Authorship
from rapt.attacks.averaging import Averaging
from rapt.attacks.base import Attack
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.black_box import Autoencoder, MlpInversion
from rapt.attacks.language import ContextualBayesian, MaskedToken
from rapt.attacks.membership import MembershipLoss
from rapt.attacks.nearest import NearestNeighbour
from rapt.attacks.ner import Ner
from rapt.attacks.replay import SeedReplay

ATTACKS: tuple[type[Attack], ...] = (
    NearestNeighbour,
    Averaging,
    MlpInversion,
    Autoencoder,
    Bayesian,
    ContextualBayesian,
    MaskedToken,
    SeedReplay,
    AttributeMlp,
    AttributeHidden,
    Authorship,
    Ner,
    MembershipLoss,
)
