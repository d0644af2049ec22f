"""What both sides keep to at inference: `rapt.json` beside an adapter, of public content alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from rapt.tuning.config import DenoiserType, Precision, Run
from rapt.utils import files

NAME = "rapt.json"
OF_VECTORS = "token-representation"  # the mechanism whose releases have a vector for each word


@dataclass(frozen=True)
class Statement:
    """How the release that an adapter was tuned on was made, for a user to repeat at inference.

    The fields are those of its statement (docs/data.md) that say so, and what it is worth; what the
    statement counts in the training data stays behind.
    """

    task: str
    method: str
    mechanism: str
    parameters: dict[str, int | float]
    categories: list[str] | None
    eta: str
    embedding: str
    table_sha256: str
    metric: str
    protection: str
    guarantee: str
    not_covered: list[str]

    @property
    def vectors(self) -> bool:
        """Whether the model was tuned on a noisy vector for each word, and takes these alone."""
        return self.mechanism == OF_VECTORS


@dataclass(frozen=True)
class Contract:
    """What a text must be like that an adapted model is asked about.

    Attributes:
        statement: of the release that it was tuned on.
        labels: the names of the classes.
        pair: whether a text has two segments.
        plain: the public sequences of plain words; each text has a privatized copy of one.
        backbone: the model as params.yaml names it.
        backbone_sha256: of its weights; None: not checked.
        quantize: how the backbone's weights are quantized; None: they are not.
        precision: what the backbone is computed with in.
        max_tokens: of a text that the model sees.
        denoiser: how the model reads released words, by the vectors in the folder `denoised`; None:
            as they are. Nothing that a user has to do.
    """

    statement: Statement
    labels: list[str]
    pair: bool
    plain: list[list[str]]
    backbone: str
    backbone_sha256: str | None
    quantize: Literal["4bit"] | None
    precision: Precision
    max_tokens: int
    denoiser: DenoiserType | None


def write(run: Run, statement: Mapping[str, Any]) -> None:
    """Write the contract of a run beside its adapter.

    Args:
        run: the run.
        statement: of the release.
    """
    data = run.release / f"seed-{run.k}"
    segments = files.read_parquet(data / "train.parquet", ["segment"])["segment"].to_pylist()
    contract = Contract(
        statement=Statement(**{field.name: statement[field.name] for field in fields(Statement)}),
        labels=statement["labels"],
        pair=any(1 in segment for segment in segments),
        plain=_sequences(data / "plain.parquet"),
        backbone=run.backbone_name,
        backbone_sha256=run.backbone_sha256,
        quantize=run.quantize,
        precision=run.train.precision,
        max_tokens=run.train.max_tokens,
        denoiser=run.denoising.type if run.denoising else None,
    )
    # No temporary name: the folder as a whole is written under one.
    content = json.dumps(asdict(contract), indent=1, sort_keys=True, ensure_ascii=False)
    (run.adapter / NAME).write_text(content + "\n")


def _sequences(path: Path) -> list[list[str]]:
    """The plain words of each sequence, in order; none where there is no file."""
    if not path.exists():
        return []
    plain = files.read_parquet(path).to_pydict()
    sequences: list[list[str]] = [[] for _ in set(plain["sequence"])]
    for number, word in zip(plain["sequence"], plain["word"], strict=True):
        sequences[number].append(word)
    return sequences
