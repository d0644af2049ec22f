"""The contract for inference: `rapt.json` beside an adapter, with only public content."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from rapt import paths
from rapt.param_types import Protect
from rapt.privacy.released import UNITS, unit_of
from rapt.tuning.config import Decoding, DenoiserType, Precision, Run
from rapt.utils import files

NAME = "rapt.json"
OF_VECTORS = "token-representation"  # of old adapters the mechanism that released vectors


def layer_of(statement: Mapping[str, Any]) -> int:
    """Return how many layers of the backbone the user has run, by a release's statement."""
    return int(statement["parameters"].get("layer", 0))


@dataclass(frozen=True)
class Statement:
    """The privatization of the release that an adapter was tuned on, to repeat at inference.

    The fields are those of the release's statement (docs/data.md) on its mechanism and guarantee.
    The statement's counts of the training data are left out.
    """

    task: str
    protect: Protect
    method: str
    mechanism: str
    parameters: dict[str, int | float | str]
    categories: list[str] | None
    eta: str
    embedding: str
    table_sha256: str
    metric: str
    protection: str
    guarantee: str
    not_covered: list[str]
    releases: str | None = None  # the unit's name; old adapters do not say it

    @property
    def layer(self) -> int:
        """How many of the backbone's layers the user has run: it begins after them."""
        return layer_of({"parameters": self.parameters})

    @property
    def vectors(self) -> bool:
        """Whether the model was tuned on noisy vectors, and takes only these."""
        if self.releases is None:
            return self.mechanism == OF_VECTORS
        return self.releases in [unit.name for unit in UNITS if unit.has_vectors]


@dataclass(frozen=True)
class Shard:
    """The share of the training texts that a teacher of private prediction tuned on.

    Attributes:
        cell: whose seeds are the teachers.
        number: of the shard, which is the seed's.
        of: how many shards the cell has.
        texts: in this one.
    """

    cell: str
    number: int
    of: int
    texts: int


@dataclass(frozen=True)
class Prediction:
    """What all answers of a server of private prediction tell together about one training text.

    Attributes:
        epsilon: with `delta`.
        queries: that spend it.
        left: how many of them are left.
        noise: of each class' votes; None: the answers are texts.
        weight: of the teachers in the mixture that a token is drawn from; None: there are classes.
    """

    epsilon: float
    delta: float
    queries: int
    left: int
    noise: float | None
    weight: float | None


@dataclass(frozen=True)
class Contract:
    """The requirements on texts for an adapted model.

    Attributes:
        plain: the public sequences of plain words; each text has a privatized copy of one.
        kind: name of the kind of task.
        segments: how many a text has: 1, 2 of a pair, or a question and its choices.
        decoding: how a text is written, where the answer depends on it.
        backbone: the model's name in params.yaml.
        denoiser: the provider's denoiser, by the vectors in the folder `denoised`; None: words are
            read as released. It requires nothing of the user.
        held_out: share of the training rows that were not tuned on: `TrainConfig.holds_out`.
        training: what a private training spent on one text (`CellResult.training`).
        shard: of a teacher; None: it tuned on all training rows.
        prediction: of a server of private prediction; no tuning run writes it.
    """

    statement: Statement
    kind: str
    labels: list[str]
    segments: int
    plain: list[list[str]]
    backbone: str
    backbone_sha256: str | None
    quantize: Literal["4bit"] | None
    precision: Precision
    max_tokens: int
    denoiser: DenoiserType | None
    held_out: float = 0.0
    decoding: Decoding | None = None
    training: Mapping[str, float] = field(default_factory=dict)
    shard: Shard | None = None
    prediction: Prediction | None = None

    @property
    def chat(self) -> bool:
        """Whether a source or a question is a user's turn in the model's chat template."""
        return self.decoding is not None and self.decoding.chat


def fitting(sizes: Sequence[Sequence[int]], room: int) -> list[slice]:
    """Return the words of a question, and of each of its choices, that fit into a prompt.

    The question keeps its last words, as they ask it. If the choices alone take more than the room,
    the longest one loses its last words.

    Args:
        sizes: the tokens of each word, first of the question.
        room: tokens of all words that are kept, at most.
    """
    question, *choices = sizes
    kept, tokens = list(map(len, choices)), list(map(sum, choices))
    while sum(tokens) > room:
        longest = tokens.index(max(tokens))
        kept[longest] -= 1
        tokens[longest] -= choices[longest][kept[longest]]
    last = bisect_right(list(accumulate(reversed(question))), room - sum(tokens))
    return [slice(len(question) - last, None), *map(slice, kept)]


def write(
    run: Run,
    statement: Mapping[str, Any],
    texts: int,
    training: Mapping[str, float] | None = None,
) -> None:
    """Write the contract of a run, which tuned on so many texts of a release, beside its adapter.

    Args:
        run: that has ended.
        statement: of the release.
        texts: that it tuned on.
        training: what a private training spent on one of them.
    """
    data = paths.seed(run.release, run.k)
    columns = files.columns_of_parquet(data / "train.parquet")
    segments: list[list[int]] = []  # a text that is one vector has none
    if "segment" in columns:
        segments = files.read_parquet(data / "train.parquet", ["segment"])["segment"].to_pylist()
    stated = [field.name for field in fields(Statement) if field.name != "releases"]
    contract = Contract(
        statement=Statement(
            **{name: statement[name] for name in stated},
            releases=statement.get("releases") or unit_of(columns).name,
        ),
        kind=run.kind.name,
        labels=list(run.kind.labels),
        segments=run.kind.segments(is_pair=any(1 in segment for segment in segments)),
        plain=_sequences(data / "plain.parquet"),
        backbone=run.backbone_name,
        backbone_sha256=run.backbone_sha256,
        quantize=run.quantize,
        precision=run.train.precision,
        max_tokens=run.train.max_tokens,
        denoiser=run.denoising.type if run.denoising else None,
        held_out=run.train.held_out,
        decoding=run.decoding if run.kind.decodes(run.decoding) else None,
        training=training or {},
        shard=Shard(run.cell, run.k, shards, texts) if (shards := run.train.shards) > 1 else None,
    )
    # Not atomic: the whole folder is written under a temporary name.
    values = asdict(contract) | {"decoding": contract.decoding and contract.decoding.model_dump()}
    for name in ("training", "shard", "prediction"):
        if not values[name]:
            del values[name]
    content = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False)
    (run.adapter / NAME).write_text(content + "\n")


def _sequences(path: Path) -> list[list[str]]:
    """Read the plain words of each sequence, in order; empty if there is no file."""
    if not path.exists():
        return []
    plain = files.read_parquet(path).to_pandas()
    return plain.groupby("sequence")["word"].apply(list).tolist()
