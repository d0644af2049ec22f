"""params.yaml as one typed model. Nothing has a default: what stands in the file is what runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML, YAMLError

from rapt import param_errors
from rapt.attacks.attribute_hidden import AttributeHidden
from rapt.attacks.attribute_mlp import AttributeMlp
from rapt.attacks.authorship import Authorship
from rapt.attacks.autoencoder import Autoencoder
from rapt.attacks.averaging import Averaging
from rapt.attacks.base import Inference, Inversion, Membership
from rapt.attacks.bayesian import Bayesian
from rapt.attacks.bayesian_in_context import ContextualBayesian
from rapt.attacks.masked_token import MaskedToken
from rapt.attacks.membership import MembershipLoss
from rapt.attacks.mlp_inversion import MlpInversion
from rapt.attacks.nearest import NearestNeighbour
from rapt.attacks.ner import Ner
from rapt.attacks.replay import SeedReplay
from rapt.errors import RaptError, not_allowed
from rapt.param_types import Model, Sha256, problem
from rapt.privacy.mechanisms import (
    MECHANISMS,
    TokenRepresentation,
    parameters,
    wordwise_mechanism,
)

Category = Literal[
    "noun",
    "verb",
    "pronoun",
    "preposition",
    "adjective",
    "symbol",
    "determiner",
    "conjunction",
    "all",
]
UniversalPos = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X",
]  # fmt: skip


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
        raise problem("given, allowed: lower-case letters, digits and single hyphens")
    return value


def _eta(value: Any) -> str:
    """η as the text that stands in paths: '75', '62.5', 'inf'."""
    allowed = "a number above 0 (75, 62.5) or inf for no privatization"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise problem(f"given, allowed: {allowed}")
    if isinstance(value, str) and value != "inf":
        raise problem(f"given, allowed: {allowed}")
    number = float(value)
    if math.isnan(number) or number <= 0:
        raise problem(f"given, allowed: {allowed}")
    if isinstance(value, float) and value.is_integer():
        raise problem(f"given, write {int(value)}")
    return str(value)


def _unique(values: list[Any]) -> list[Any]:
    if twice := sorted({str(v) for v in values if values.count(v) > 1}):
        raise problem(f"given, allowed: each entry once (twice here: {', '.join(twice)})")
    return values


def _mechanism(value: dict[str, Any]) -> dict[str, Any]:
    """A mechanism's `type` and every one of its parameters."""
    try:
        how = wordwise_mechanism(**value) if "type" in value else None
    except RaptError as error:
        raise problem(str(error).removeprefix("mechanism: ")) from None
    if how is None:
        raise problem("type missing, it says which mechanism this is")
    if missing := [name for name in parameters(how) if name not in value]:
        raise problem(f"{', '.join(missing)} missing, nothing has a default")
    if isinstance(how, TokenRepresentation) and math.frexp(how.grid)[0] != 0.5:
        raise problem(
            f"grid {how.grid} given, allowed: a power of two (0.0009765625 is 2^-10), as vectors "
            "are released in float32"
        )
    return value


def _scheme(values: list[Any]) -> list[Any]:
    if "all" in values and len(values) > 1:
        raise problem("given, allowed: 'all' alone or a list without it")
    return _unique(values)


Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[list[Name], AfterValidator(_unique)]
Eta = Annotated[str, BeforeValidator(_eta)]
Share = Annotated[float, Field(ge=0, lt=1)]
Mechanism = Annotated[dict[str, str | float | int | bool], AfterValidator(_mechanism)]
Categories = Annotated[list[Category], Field(min_length=1), AfterValidator(_scheme)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sweep(_Section):
    """The lists whose product is the grid of cells."""

    tasks: Names
    train: Names
    infer: Names
    recognize: Names
    embeddings: Annotated[Names, Field(min_length=1)]
    backbones: Names
    tuners: Names
    methods: Annotated[Names, Field(min_length=1)]
    etas: Annotated[list[Eta], Field(min_length=1), AfterValidator(_unique)]
    channels: Names
    denoisers: Names
    inversions: Names
    channel_inversions: Names
    inferences: Names
    memberships: Names
    recognitions: Names
    layers: Annotated[list[str], AfterValidator(_unique)]

    @property
    def channel_readers(self) -> str | None:
        """The lists of this sweep, if any, for which P(y|w) is estimated."""
        lists = {"denoisers": self.denoisers, "channel_inversions": self.channel_inversions}
        return " and ".join(f"sweep.{name}" for name, given in lists.items() if given) or None


class Study(_Section):
    """One cell off the grid: all its factors."""

    task: Name
    embedding: Name
    method: Name
    eta: Eta
    backbone: Name
    tuner: Name


class PackageSource(_Section):
    """A file inside a Python package."""

    type: Literal["package"]
    requirement: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+$")]
    artifact: Literal["sdist", "wheel"]
    sha256: Sha256
    members: Annotated[list[str], Field(min_length=1)]


class FilesSource(_Section):
    """Local files: `train` and `test`, or one `all` that is divided at random."""

    type: Literal["files"]
    files: dict[Literal["train", "test", "all"], str]
    sha256: dict[Literal["train", "test", "all"], Sha256] | None

    @field_validator("files")
    @classmethod
    def _whole(cls, files: dict[str, str]) -> dict[str, str]:
        if set(files) not in ({"train", "test"}, {"all"}):
            raise problem("given, allowed: train and test, or all alone")
        return files


class HubSource(_Section):
    """A data set of the Hugging Face hub at a pinned revision; `splits`: ours, then its."""

    type: Literal["hub"]
    dataset: str
    config: str | None
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    splits: dict[Literal["train", "test"], str]

    @field_validator("splits")
    @classmethod
    def _whole(cls, splits: dict[str, str]) -> dict[str, str]:
        if set(splits) != {"train", "test"}:
            raise problem("given, allowed: train and test")
        return splits


class Format(_Section):
    """How to read a table from a file."""

    type: Literal["csv", "tsv", "jsonl", "parquet"]
    names: list[str] | None
    skip_rows: Annotated[int, Field(ge=0)]
    quoted: bool


class Label(_Section):
    """The class to predict."""

    column: str
    names: Annotated[list[str], Field(min_length=2), AfterValidator(_unique)]
    threshold: float | None

    @model_validator(mode="after")
    def _two(self) -> Label:
        if self.threshold is not None and len(self.names) != 2:
            raise problem("a threshold given, allowed: with two names only")
        return self


class Values(_Section):
    """A private attribute that is one of these values."""

    type: Literal["values"]
    column: str
    values: Annotated[list[str], Field(min_length=2), AfterValidator(_unique)]


class Bins(_Section):
    """A private number, in `count` bins of equally many training rows, or parted at `edges`."""

    type: Literal["bins"]
    column: str
    least: FiniteFloat
    most: FiniteFloat
    count: Annotated[int, Field(ge=2)] | None
    edges: Annotated[list[FiniteFloat], Field(min_length=1)] | None

    @model_validator(mode="after")
    def _ordered(self) -> Bins:
        if self.least >= self.most:
            raise problem(f"least {self.least:.15g} given, allowed: below most ({self.most:.15g})")
        if (self.count is None) == (self.edges is None):
            given = "neither" if self.count is None else "both"
            raise problem(f"{given} of count and edges given, allowed: one, the other null")
        ends = [self.least, *(self.edges or []), self.most]
        if any(low >= high for low, high in pairwise(ends)):
            given = ", ".join(f"{edge:.15g}" for edge in ends[1:-1])
            raise problem(f"edges {given} given, allowed: ascending, between least and most")
        return self


class MostFrequent(_Section):
    """A private attribute that is one of the `count` most frequent values of its column."""

    type: Literal["most-frequent"]
    column: str
    count: Annotated[int, Field(ge=2)]


Attribute = Annotated[Values | Bins | MostFrequent, Field(discriminator="type")]


class Rows(_Section):
    """Rows of each split; None: all."""

    train: PositiveInt | None
    test: PositiveInt | None


class Task(_Section):
    """A data set: where it comes from, how it is read, what is used of it."""

    source: Annotated[PackageSource | FilesSource | HubSource, Field(discriminator="type")]
    format: Format | None
    text: str
    text_pair: str | None
    entities: str | None
    label: Label | None
    attributes: dict[Name, Attribute] | None
    authors: Annotated[list[str], Field(min_length=1), AfterValidator(_unique)] | None
    exclude: dict[str, list[str]] | None
    rows: Rows

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        if self.source.type != "hub" and self.format is None:
            raise problem(f"format null given, allowed: a format for a {self.source.type} source")
        if self.entities and self.text_pair:
            raise problem("entities and text_pair given, allowed: one of them, the other null")
        single = self.source.type == "package" or "all" in getattr(self.source, "files", {})
        if (single or self.authors) and self.rows.test is None:
            divided = "authors are" if self.authors else "one file is"
            raise problem(f"rows.test null given, allowed: a number, as {divided} divided")
        for name, attribute in (self.attributes or {}).items():
            of_all = isinstance(attribute, MostFrequent) and attribute.column in (
                self.authors or []
            )
            if of_all or self.authors == [attribute.column]:
                raise problem(
                    f"authors {attribute.column!r} given, allowed: another column or null, as "
                    f"attributes.{name}, inferred from it, needs each author on both sides"
                )
        return self


class Gate(_Section):
    """What the first gate lets through."""

    min_rows: PositiveInt
    min_characters: PositiveInt
    max_characters: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> Gate:
        if self.min_characters > self.max_characters:
            raise problem("min_characters above max_characters given, allowed: at most as many")
        return self


class Embedding(_Section):
    """An embedding model and its candidate table."""

    model: Model
    sha256: Sha256 | None
    extra_pos: dict[str, list[UniversalPos]] | None


class BiLstm(_Section):
    """A bidirectional LSTM in place of a model's own layers (Qu et al., 2021)."""

    type: Literal["bilstm"]
    hidden: PositiveInt
    layers: PositiveInt
    dropout: Share


class Backbone(_Section):
    """A model to tune; `encoder` None: as it is, else on its input embeddings alone."""

    model: Model
    sha256: Sha256 | None
    encoder: BiLstm | None


class PlainTokens(_Section):
    """Public words that the user prepends to every text; `vocabulary` None: all candidates."""

    length: PositiveInt
    sequences: PositiveInt
    choice: Literal["uniform", "frequency"]
    vocabulary: PositiveInt | None

    @model_validator(mode="after")
    def _enough(self) -> PlainTokens:
        if self.vocabulary is not None and self.vocabulary < self.length:
            raise problem(
                f"vocabulary {self.vocabulary} given, allowed: at least length ({self.length}), "
                "or null for all candidates"
            )
        return self


class Reconstruction(_Section):
    """The second task (METHOD: RAPT section on privatized token reconstruction)."""

    head_size: PositiveInt
    weight: PositiveFloat
    reduction: Literal["sum", "mean"]


class Method(_Section):
    """A way of privatizing, and what the provider is given beside the text."""

    mechanism: Mechanism
    categories: Categories | None
    plain_tokens: PlainTokens | None
    reconstruction: Reconstruction | None

    @property
    def releases_vectors(self) -> bool:
        """Whether a release holds the noisy vector of each word beside the word."""
        return MECHANISMS[str(self.mechanism["type"])].releases == "vectors"

    @model_validator(mode="after")
    def _consistent(self) -> Method:
        needs = MECHANISMS[str(self.mechanism["type"])].categories
        if needs == "none" and self.categories is not None:
            raise problem(
                f"categories given, allowed: null with mechanism {self.mechanism['type']} "
                "(every word)"
            )
        if needs == "required" and self.categories is None:
            raise problem(
                f"categories null given, allowed: a list with mechanism {self.mechanism['type']}"
            )
        if self.releases_vectors and self.plain_tokens:
            raise problem(
                f"plain_tokens given, allowed: null with mechanism {self.mechanism['type']}, which "
                "releases vectors"
            )
        if self.reconstruction and not self.plain_tokens:
            raise problem("plain_tokens null given, allowed: a section with reconstruction")
        return self


class Lora(_Section):
    """LoRA (Hu et al., 2021) through PEFT, on the modules that PEFT chooses for the backbone."""

    type: Literal["lora"]
    r: PositiveInt
    alpha: PositiveInt
    dropout: Share
    quantize: Literal["4bit"] | None
    learning_rate: PositiveFloat


class PromptTuning(_Section):
    """Virtual tokens before the text (Lester et al., 2021)."""

    type: Literal["prompt-tuning"]
    tokens: PositiveInt
    learning_rate: PositiveFloat


class PrefixTuning(_Section):
    """Keys and values before the text's, in every layer (Li and Liang, 2021)."""

    type: Literal["prefix-tuning"]
    tokens: PositiveInt
    learning_rate: PositiveFloat


class PTuning(_Section):
    """Virtual tokens from a small network (Liu et al., 2021)."""

    type: Literal["p-tuning"]
    tokens: PositiveInt
    hidden: PositiveInt
    learning_rate: PositiveFloat


class Full(_Section):
    """Every weight of the backbone learns, of a BiLSTM all but its embeddings."""

    type: Literal["full"]
    learning_rate: PositiveFloat


Tuner = Annotated[Lora | PromptTuning | PrefixTuning | PTuning | Full, Field(discriminator="type")]


class Denoiser(_Section):
    """What the provider makes of a released word, knowing the mechanism."""

    type: Literal["posterior-mean", "posterior-sample"]
    prior: Literal["public", "release"]


class Train(_Section):
    """The training loop."""

    epochs: PositiveInt
    batch_size: PositiveInt
    max_tokens: Annotated[int, Field(ge=8)]
    warmup: Share
    weight_decay: Annotated[float, Field(ge=0)]
    precision: Literal["float32", "bf16"]


class Calibrate(_Section):
    """Replacement statistics by η, and the η of some shares."""

    categories: Categories
    etas: Annotated[list[Eta], Field(min_length=1), AfterValidator(_unique)]
    replaced: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1), AfterValidator(_unique)
    ]
    words: Annotated[int, Field(ge=2)]
    draws: PositiveInt


class Channel(_Section):
    """Words and draws of a channel; `sampled` None: every word."""

    frequent: PositiveInt
    sampled: PositiveInt | None
    draws: PositiveInt
    by_frequency: Annotated[int, Field(ge=0)]


class Geometry(_Section):
    """Words that distances are measured over."""

    words: Annotated[int, Field(ge=2)]


class Layers(_Section):
    """Texts whose hidden states are compared with those of the method `clean` at η inf."""

    clean: Name
    texts: Annotated[int, Field(ge=2)]
    points: PositiveInt


Attack = Annotated[
    NearestNeighbour
    | Averaging
    | MlpInversion
    | Autoencoder
    | Bayesian
    | ContextualBayesian
    | MaskedToken
    | SeedReplay
    | AttributeMlp
    | AttributeHidden
    | Authorship
    | Ner
    | MembershipLoss,
    Field(discriminator="type"),
]


class Params(_Section):
    """The whole of params.yaml."""

    # Below what scikit-learn takes, with room for the seeds' numbers.
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    seeds: PositiveInt
    sweep: Sweep
    embedding: Name
    studies: dict[Name, Study]
    tasks: dict[Name, Task]
    gate: Gate
    tagger: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    embeddings: dict[Name, Embedding]
    backbones: dict[Name, Backbone]
    methods: dict[Name, Method]
    tuners: dict[Name, Tuner]
    denoisers: dict[Name, Denoiser]
    train: Train
    calibrate: Calibrate
    channel: Channel
    geometry: Geometry
    layers: Layers
    attacks: dict[Name, Attack]

    @model_validator(mode="after")
    def _references(self, info: ValidationInfo) -> Params:
        lines = list(self._reference_problems())
        if lines:
            raise PydanticCustomError("references", "{lines}", {"lines": "\n".join(lines)})
        return self

    def _reference_problems(self) -> Iterable[str]:
        """Every name that stands for an entry elsewhere must stand there, and fit its use."""
        unknown = [name for name in self.sweep.tasks if name not in self.tasks]
        if unknown:  # what follows would only repeat it
            yield from (not_allowed("sweep.tasks", name, self.tasks) for name in unknown)
            return
        swept = {name: self.tasks[name] for name in self.sweep.tasks}
        labelled = [name for name, task in swept.items() if task.label]
        readers = self.sweep.channel_readers
        for field, names in self._allowed(swept, labelled).items():
            for given in getattr(self.sweep, field):
                if given not in names:
                    beside = f" with {readers}" if field == "channels" and readers else ""
                    yield not_allowed(f"sweep.{field}{beside}", given, names)
        if readers and not self.channel.by_frequency:
            yield f"channel.by_frequency: 0 given, allowed with {readers}: above 0, say 500000"
        if self.embedding not in self.sweep.embeddings:
            yield not_allowed("embedding", self.embedding, self.sweep.embeddings)
        factors: dict[str, Iterable[str]] = {
            "task": labelled,
            "embedding": self.sweep.embeddings,
            "backbone": self.backbones,
            "tuner": self.tuners,
            "method": self.methods,
        }
        for study, cell in self.studies.items():
            for factor, names in factors.items():
                if (given := getattr(cell, factor)) not in names:
                    yield not_allowed(f"studies.{study}.{factor}", given, names)
        for name in (*self.sweep.inversions, *self.sweep.channel_inversions):
            how = self.attacks.get(name)
            if isinstance(how, Inversion) and how.takes > self.seeds:
                yield f"attacks.{name}.copies: {how.takes} given, allowed: at most {self.seeds}"
        yield from self._unfit_inversions()
        yield from self._untunable()
        yield from self._unlike_clean()
        yield from self._collisions()

    def _allowed(self, swept: Mapping[str, Task], labelled: list[str]) -> dict[str, Iterable[str]]:
        """For each list of the sweep the names that it may hold."""
        return {
            "train": labelled,
            "infer": [name for name, task in swept.items() if task.attributes],
            "recognize": swept,
            "embeddings": self.embeddings,
            "backbones": self.backbones,
            "tuners": self.tuners,
            "methods": self.methods,
            # P(y|w) is a channel from words to words; what reads it reads a release, too.
            "channels": [
                n
                for n in (self.sweep.methods if self.sweep.channel_readers else self.methods)
                if n in self.methods and not self.methods[n].releases_vectors
            ],
            "denoisers": self.denoisers,
            "inversions": self._inversions(reads_channel=False),
            "channel_inversions": self._inversions(reads_channel=True),
            "inferences": [n for n, how in self.attacks.items() if isinstance(how, Inference)],
            "memberships": [n for n, how in self.attacks.items() if isinstance(how, Membership)],
            "recognitions": [n for n, how in self.attacks.items() if isinstance(how, Ner)],
        }

    def _inversions(self, *, reads_channel: bool) -> list[str]:
        return [
            name
            for name, how in self.attacks.items()
            if isinstance(how, Inversion) and how.reads_channel == reads_channel
        ]

    def _unfit_inversions(self) -> Iterable[str]:
        """An attack that undoes some mechanisms has nothing to say of others."""
        for name, method in product(self.sweep.inversions, self.sweep.methods):
            how, of = self.attacks.get(name), self.methods.get(method)
            if isinstance(how, Inversion) and how.mechanisms and of:
                given = str(of.mechanism["type"])
                if given not in how.mechanisms:
                    where = f"methods.{method}.mechanism.type (with attack {name})"
                    yield not_allowed(where, given, sorted(how.mechanisms))

    def _untunable(self) -> Iterable[str]:
        """A fresh encoder has no weights to adapt: all of it learns, so no other tuner fits."""
        sweep = self.sweep
        given = {
            ("sweep.tuners", backbone, tuner)
            for _, backbone, tuner in product(sweep.train, sweep.backbones, sweep.tuners)
        } | {(f"studies.{name}.tuner", s.backbone, s.tuner) for name, s in self.studies.items()}
        fitting = [name for name, tuner in self.tuners.items() if isinstance(tuner, Full)]
        for key, backbone, tuner in sorted(given):
            known = backbone in self.backbones and tuner in self.tuners
            if known and self.backbones[backbone].encoder and tuner not in fitting:
                yield not_allowed(f"{key} (with backbone {backbone})", tuner, fitting)

    def _unlike_clean(self) -> Iterable[str]:
        """Hidden states are those of cells of the grid; the clean model is one, and no other's."""
        sweep, clean = self.sweep, f"{self.layers.clean}-inf"
        if not sweep.layers:
            return
        tuned = {f"{method}-{eta}" for method, eta in product(sweep.methods, sweep.etas)}
        if clean not in tuned:
            yield (
                f"sweep.layers: given, which sets against {clean}, allowed: with "
                f"{self.layers.clean} in sweep.methods and inf in sweep.etas"
            )
        for given in sweep.layers:
            if given not in tuned - {clean}:
                yield not_allowed("sweep.layers", given, tuned - {clean})
        for name in sweep.backbones:
            if name in self.backbones and self.backbones[name].encoder:
                yield f"sweep.layers: given with backbone {name}, allowed: none with a bilstm"

    def _collisions(self) -> Iterable[str]:
        """Cells are named by their factors joined by hyphens: two must not come out the same."""
        if "studies" in self.tasks:
            yield "tasks.studies: the name is taken by the folder of the studies, give another"
        sweep = self.sweep
        released, etas = (sweep.methods, sweep.etas), sweep.etas
        tuned = (sweep.train, sweep.backbones, sweep.tuners, *released)
        denoised = (*tuned[:3], sweep.channels, etas, sweep.denoisers)
        folders: list[list[tuple[str, ...]]] = [
            [*product(*tuned), *product(*denoised), *((name,) for name in self.studies)],
            [  # an attack that stands in the wrong list, too, has its own line
                *{
                    *product(sweep.inversions, sweep.tasks, *released),
                    *product(sweep.channel_inversions, sweep.tasks, sweep.channels, etas),
                }
            ],
            [*product(sweep.inferences, sweep.infer, *released)],
            [*product(sweep.recognitions, sweep.recognize, *released)],
            [*product(sweep.recognitions, sweep.recognize)],
            [*product(sweep.memberships, *tuned)],
        ]
        given = [name for cells in folders for name in Counter(map("-".join, cells)).items()]
        for name in sorted(name for name, count in given if count > 1):
            yield f"{name}: the name of two cells, rename a study or one of its factors"


def load(path: str | Path = "params.yaml") -> Params:
    """Read and validate params.yaml.

    Raises:
        RaptError: one line for each problem: key, what was given, what is allowed, nearest match.
    """
    try:
        content = YAML(typ="safe").load(Path(path))
    except FileNotFoundError as error:
        raise RaptError(f"{path}: not there; run in the project's folder") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise RaptError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    return validate(content)


def validate(content: Any) -> Params:
    """Validate what was read from params.yaml; see `load`."""
    if not isinstance(content, dict):
        raise RaptError(
            "params.yaml: empty or a list given, allowed: a mapping with the sections of the demo"
        )
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        raise RaptError("\n".join(param_errors.lines(error, content, Params))) from None
