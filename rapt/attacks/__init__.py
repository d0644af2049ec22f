"""Attacks on releases and on what is tuned on them: one module each, and their registry."""

from __future__ import annotations

from rapt.attacks.attribute import AttributeMlp
from rapt.attacks.base import Attack
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.black_box import Autoencoder, MlpInversion
from rapt.attacks.membership import MembershipLoss
from rapt.attacks.nearest import NearestNeighbour

ATTACKS: tuple[type[Attack], ...] = (
    NearestNeighbour,
    MlpInversion,
    Autoencoder,
    Bayesian,
    AttributeMlp,
    MembershipLoss,
)
