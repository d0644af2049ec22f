"""Synthetic data sets under differential privacy: new texts of each class in place of private ones.

Each synthesizer is a class of its own module, and a section of params.yaml.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SerializeAsAny

from rapt.param_types import or_of, type_of
from rapt.synthesis.aug_pe import AugPe
from rapt.synthesis.base import Synthesizer
from rapt.synthesis.generator import Generator
from rapt.utils.registry import Registry

# Another package adds one by an entry point of this group.
SYNTHESIZERS: Registry[type[Synthesizer]] = Registry(
    "rapt.synthesizers", Synthesizer, type_of, [Generator, AugPe]
)
AnySynthesizer = Annotated[
    Annotated[Generator | AugPe, Field(discriminator="type")],
    or_of(SYNTHESIZERS),
    SerializeAsAny(),
]
