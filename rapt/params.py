"""params.yaml as one typed model: what it leaves out has the default of its class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML, YAMLError

from rapt import param_checks, param_errors, paths
from rapt.attacks import AnyAttack
from rapt.data.config import Gate
from rapt.grid import CLEAN
from rapt.kinds import KINDS
from rapt.kinds.base import Kind
from rapt.param_types import (
    Eta,
    Etas,
    Model,
    Name,
    Names,
    Section,
    Sha256,
    Typed,
    numbers,
    problem,
    unique,
)
from rapt.paths import PARAMS
from rapt.privacy.config import (
    Calibrate,
    Categories,
    ChannelConfig,
    LabelNoise,
    Mechanism,
    PlainTokensConfig,
)
from rapt.privacy.labels import RandomizedLabels
from rapt.privacy.mechanisms import MECHANISMS
from rapt.privacy.released import Released
from rapt.synthesis import AnySynthesizer
from rapt.tasks import AnyTask
from rapt.tuning.config import (
    Backbone,
    Decoding,
    Denoiser,
    PosteriorTarget,
    Reconstruction,
    TrainConfig,
)
from rapt.tuning.tuners import AnyTuner
from rapt.utils.errors import RaptError

UniversalPos = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X",
]  # fmt: skip


class Sweep(Section):
    """The lists whose product is the grid of cells; all are there, as dvc.yaml reads them."""

    tasks: Names = Field(min_length=1, description="downloaded, checked, tagged and privatized")
    train: Names = Field(description="of tasks, those tuned on: they have a label or references")
    score: Names = Field(
        description="of train, all of kind generate: what was written for them is scored"
    )
    invert: Names = Field(description="of tasks, those whose words are attacked")
    infer: Names = Field(description="of tasks, those whose private attributes are attacked")
    recognize: Names = Field(description="of tasks, those whose entities are attacked")
    embeddings: Names = Field(min_length=1, description="whose tables are made")
    backbones: Names = Field(description="models to tune")
    tuners: Names = Field(description="ways of tuning them, at the η of tune_at")
    probes: Names = Field(
        description="cheap ways of tuning them, at every η, on the words of attacked"
    )
    methods: Names = Field(min_length=1, description="ways of privatizing")
    etas: Etas = Field(
        description="privacy parameters: smaller is more private. replaced-50 is the η of each "
        "method that replaces half of the protected words. At recovered-20 an attacker "
        "recovers at most a fifth of them. At linked-10 it finds the original of at most a "
        "tenth of the releases, of 20 public words each, among 1,000"
    )
    tune_at: Annotated[list[Eta], AfterValidator(unique)] = Field(
        description="of etas, those of tuners"
    )
    attacked: Names = Field(
        description="of methods, those attacked and probed: of those that privatize alike, one"
    )
    channels: Names = Field(description="of methods, those whose channel P(y|w) is estimated")
    denoisers: Names = Field(description="what the provider makes of released words, for channels")
    inversions: Names = Field(description="attacks on words, without the channel")
    channel_inversions: Names = Field(
        description="attacks on words by whoever knows the channel, for channels"
    )
    inferences: Names = Field(description="attacks on private attributes")
    recognitions: Names = Field(description="attacks on entities")
    linkages: Names = Field(description="attacks that seek the original of a release")
    memberships: Names = Field(description="attacks on tuned adapters")
    layers: Annotated[list[str], AfterValidator(unique)] = Field(
        description="METHOD-ETA whose hidden states are compared with the clean model's"
    )

    synthesizers: Names = Field(
        description="ways of making synthetic texts of the tasks in train; tuners read them, too"
    )
    epsilons: Annotated[list[Eta], AfterValidator(unique), AfterValidator(numbers)] = Field(
        description="differential privacy of synthetic texts: smaller is more private. In results "
        "it stands where methods have η"
    )

    @property
    def channel_readers(self) -> str | None:
        """The lists of this sweep, if any, for which P(y|w) is estimated."""
        lists = {"denoisers": self.denoisers, "channel_inversions": self.channel_inversions}
        return " and ".join(f"sweep.{name}" for name, given in lists.items() if given) or None


class Study(Section):
    """One cell off the grid: all its factors."""

    task: Name
    embedding: Name
    method: Name
    eta: Eta
    backbone: Name
    tuner: Name


class Embedding(Section):
    """An embedding model: its public vocabulary is the table, its embeddings the metric space."""

    model: Model = Field(
        description="package:NAME/FOLDER, a folder, owner/name@REVISION, or static vectors: "
        "GloVe, fastText, word2vec, spaCy, model2vec"
    )
    sha256: Sha256 | None = Field(None, description="of its model.safetensors; null: not checked")
    extra_pos: dict[str, list[UniversalPos]] | None = Field(
        None, description="further parts of speech of words: word, then tags"
    )


class Layers(Section):
    """The hidden states that sweep.layers compares."""

    texts: int = Field(200, ge=2, description="of the test split, at most")
    points: PositiveInt = Field(100, description="texts kept as points of a plane")


class Method(Section):
    """A way of privatizing, and what the provider is given beside the text."""

    mechanism: Mechanism = Field(description="name, or type and parameters")
    categories: Categories | None = Field(
        None, description="parts of speech that get noise; null: every word, PCT2T: RAPT's four"
    )
    plain_tokens: PlainTokensConfig | None = Field(None, description="null: none")
    labels: LabelNoise | None = Field(
        None, description="noise of the training labels; null: they are released as they are"
    )
    reconstruction: Reconstruction | None = Field(
        None, description="the second task: predict them; null: none"
    )

    @property
    def releases(self) -> type[Released]:
        """What is released of a text."""
        return MECHANISMS[str(self.mechanism["type"])].releases

    @model_validator(mode="before")
    @classmethod
    def _of_paper(cls, value: Any) -> Any:
        """A mechanism that is defined with categories takes RAPT's where none are given."""
        if isinstance(value, dict) and value.get("categories") is None:
            how = value.get("mechanism")
            name = how.get("type") if isinstance(how, dict) else how
            kind = MECHANISMS.get(name) if isinstance(name, str) else None
            if kind and kind.categories == "required":
                return value | {"categories": "paper"}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Method:
        kind = self.mechanism["type"]
        if MECHANISMS[str(kind)].categories == "none" and self.categories is not None:
            raise problem(
                f"got categories, expected none with mechanism {kind}: every word gets noise."
            )
        if self.plain_tokens and not self.releases.has_channel:
            raise problem(
                f"got plain_tokens, expected none with mechanism {kind}: it releases "
                f"{self.releases.name}."
            )
        if self.reconstruction and not self.plain_tokens:
            raise problem("got reconstruction without plain_tokens, expected both.")
        return self


class Params(Section):
    """The whole of params.yaml."""

    # Below what scikit-learn takes, with room for the seeds' numbers.
    seed: int = Field(
        0,
        ge=0,
        lt=2**31,
        description="root of every random stream; who knows it can replay the noise, so a "
        "release to a real provider uses none (rapt privatize)",
    )
    seeds: PositiveInt = Field(
        3, description="repetitions of a cell: of the noise, the plain tokens, the training"
    )
    allow_weak: bool = Field(
        default=False,
        description="release at etas that replace hardly a word, or whose replacements an attacker "
        "undoes. Such a release is never pushed: with a DVC remote it is refused all the same",
    )
    sweep: Sweep
    embedding: Name = Field(description="of sweep.embeddings, the one that privatizes")
    studies: dict[Name, Study] = Field(description="cells off the grid")
    public_labels: dict[Name, Name] = Field(
        {},
        description="task of sweep.train: public task of sweep.tasks with the same classes, from "
        "which a provider learns without labels of yours",
    )
    tasks: dict[Name, AnyTask] = Field(description="data sets")
    gate: Gate = Gate()
    tagger: str = Field(
        paths.TAGGER,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="spaCy model that splits and tags texts, an importable package",
    )
    language: str | None = Field(
        None, description="code of the texts' language, or any; null: the tagger's"
    )
    embeddings: dict[Name, Embedding] = Field(description="embedding models")
    backbones: dict[Name, Backbone] = Field({}, description="models to tune")
    methods: dict[Name, Method] = Field(description="ways of privatizing")
    synthesizers: dict[Name, AnySynthesizer] = Field(
        {}, description="ways of making synthetic texts"
    )
    tuners: dict[Name, Annotated[AnyTuner, Typed]] = Field({}, description="ways of tuning")
    denoisers: dict[
        Name, Annotated[Denoiser | PosteriorTarget, Field(discriminator="type"), Typed]
    ] = Field({}, description="what the provider makes of its knowledge of the mechanism")
    train: TrainConfig = TrainConfig()
    decoding: Decoding = Decoding()
    calibrate: Calibrate = Calibrate()
    channel: ChannelConfig = ChannelConfig()
    layers: Layers = Layers()
    attacks: dict[Name, Annotated[AnyAttack, Typed]] = Field({}, description="attacks")

    def method(self, name: str) -> Method:
        """A method by its name; clean and synthetic words are released as they are."""
        if name == CLEAN or name in self.synthesizers:
            return Method(mechanism="t2t")  # type: ignore[arg-type]
        return self.methods[name]

    def randomized_labels(self, task: str, method: str) -> RandomizedLabels | None:
        """How the training labels of a task are drawn for a method; None: they stay."""
        noise, names = self.method(method).labels, self.tasks[task].names
        return RandomizedLabels(noise.epsilon, len(names), self.seed) if noise and names else None

    def kind(self, task: str) -> type[Kind]:
        """The provider's half of the kind of a task."""
        return KINDS[self.tasks[task].kind]

    @model_validator(mode="after")
    def _references(self) -> Params:
        if lines := param_checks.problems(self):
            raise PydanticCustomError("references", "{lines}", {"lines": "\n".join(lines)})
        return self


def load(path: str | Path = PARAMS) -> Params:
    """Read and validate params.yaml.

    Raises:
        RaptError: one line for each problem: key, what was got, what is expected, nearest match.
    """
    try:
        content = YAML(typ="safe").load(Path(path))
    except FileNotFoundError as error:
        raise RaptError(
            f"{path}: got no such file, expected a project's params. Run in its folder."
        ) from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise RaptError(not_yaml(path, error)) from error
    return validate(content)


def not_yaml(path: str | Path, error: Exception) -> str:
    """Format the line for a params file that cannot be parsed."""
    return f"{path}: got what is not YAML ({' '.join(str(error).split())}), expected YAML."


def validate(content: Any) -> Params:
    """Validate what was read from params.yaml; see `load`."""
    if not isinstance(content, dict):
        shown = "an empty file" if content is None else f"a {type(content).__name__}"
        raise RaptError(
            f"params.yaml: got {shown}, expected a mapping of sections. Try: rapt preset demo"
        )
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        raise RaptError("\n".join(param_errors.lines(error, content, Params))) from None
