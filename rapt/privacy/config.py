"""Sections of params.yaml on privatization: methods, calibration and channels."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)

from rapt.param_types import Etas, Section, numbers, problem, unique
from rapt.privacy.categories import ALL, CATEGORIES, SETS, joined
from rapt.privacy.mechanisms import MECHANISMS, mechanism, parameters
from rapt.utils.errors import RaptError, not_allowed


def _mechanism(value: Any) -> Any:
    """Complete a mechanism's parameters; a name alone means the paper's parameters."""
    value = {"type": value} if isinstance(value, str) else value
    if not isinstance(value, dict):
        return value
    try:
        how = mechanism(**{"type": None} | {str(key): v for key, v in value.items()})
    except RaptError as error:
        raise problem(str(error).removeprefix("mechanism: ")) from None
    given = parameters(how)
    if math.frexp(given.get("grid", 1.0))[0] != 0.5:
        raise problem(
            f"got grid {given['grid']}, expected a power of two (0.0009765625 is 2^-10), as "
            "vectors are released in float32."
        )
    return {"type": value["type"], **given}


def _several(value: Any) -> Any:
    """Expand a set to its categories, and a single category to a list."""
    if isinstance(value, str):
        return list(SETS.get(value, (value,)))
    return value


def _category(value: str) -> str:
    names, given = (*CATEGORIES, ALL), joined(value)
    for name in given:
        if name not in names:
            raise problem(not_allowed("", name, names).removeprefix(": "))
    if ALL in given and len(given) > 1:
        raise problem(f"got {value!r}, expected categories without 'all'.")
    return value


def _scheme(values: list[Any]) -> list[Any]:
    if "all" in values and len(values) > 1:
        raise problem(f"got {', '.join(values)}, expected 'all' alone or a list without it.")
    return unique(values)


FinitePositive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NAMED = {"enum": list(MECHANISMS.data)}  # in the JSON Schema, a mechanism's name
Mechanism = Annotated[
    dict[str, str | float | int | bool],
    BeforeValidator(_mechanism),
    WithJsonSchema(
        {"anyOf": [NAMED, {"type": "object", "properties": {"type": NAMED}, "required": ["type"]}]}
    ),
]
Category = Annotated[
    str,
    AfterValidator(_category),
    WithJsonSchema({"anyOf": [{"enum": [*CATEGORIES, ALL]}, {"pattern": r"^[a-z]+(\+[a-z]+)+$"}]}),
]
Categories = Annotated[
    list[Category],
    Field(
        min_length=1,
        description="parts of speech that get noise, one or several, or a set: `paper` (RAPT's "
        "four), `content`; noun+verb is one group of both",
    ),
    AfterValidator(_scheme),
    BeforeValidator(
        _several, json_schema_input_type=list[Category] | Category | Literal["paper", "content"]
    ),
]


class LabelNoise(Section):
    """Randomized response of the training labels: a text's loss grows by ε in each copy."""

    epsilon: FinitePositive = Field(description="the most that a label loses")


class PlainTokensConfig(Section):
    """Public words that the user prepends to every text, privatized with it (RAPT)."""

    length: PositiveInt = Field(40, description="words before each text")
    sequences: PositiveInt = Field(
        1, description="of plain tokens a seed draws; each text has one of them"
    )
    choice: Literal["uniform", "frequency"] = Field(
        "uniform", description="how they are drawn: uniform, or by the table's public frequencies"
    )
    vocabulary: PositiveInt | None = Field(
        None, description="most frequent candidates they are drawn from; null: all candidates"
    )

    @model_validator(mode="after")
    def _enough(self) -> PlainTokensConfig:
        if self.vocabulary is not None and self.vocabulary < self.length:
            raise problem(
                f"got vocabulary {self.vocabulary}, expected at least length ({self.length}), or "
                "null for all candidates."
            )
        return self


# 25, 75, 125, 150 and 175 are those of RAPT's Table III. More of them cost nothing.
CURVE = (25, 50, 75, 100, 125, 150, 175, 200)


class Calibrate(Section):
    """Calibration: replaced shares by η, the η of target shares, and distances between words."""

    categories: Categories = Field(list(SETS["paper"]), description="of PCT2T's curve")
    etas: Annotated[Etas, AfterValidator(numbers)] = Field(
        [str(eta) for eta in CURVE],
        description="to show the replaced share at",
        json_schema_extra={"default": [*CURVE]},
    )
    replaced: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]],
        Field(min_length=1, description="shares of the protected words to find the η for"),
        AfterValidator(unique),
    ] = [0.9, 0.5, 0.1]
    words: int = Field(1200, ge=2, description="drawn from public texts, as many from each kind")
    draws: PositiveInt = Field(50, description="noisy draws of each word")
    distances: int = Field(
        500, ge=2, description="words of the table that distances are taken over"
    )


class ChannelConfig(Section):
    """Estimation of the channel P(y|w): its words, and the number of draws of each."""

    frequent: PositiveInt = Field(2_000, description="most frequent words: what texts consist of")
    sampled: PositiveInt | None = Field(
        300, description="sample of the vocabulary for N_w and S_w; null: every word"
    )
    draws: PositiveInt = Field(80, description="of each word; the papers take 1000")
    by_frequency: int = Field(
        100_000,
        ge=0,
        description="draws on top, shared out by public frequency; 0: none. Posteriors need "
        "them: else a chance draw of a frequent word outweighs what leads to a rare one",
    )
