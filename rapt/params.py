"""params.yaml as one typed model: what it leaves out has the default of its class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML, YAMLError

from rapt import param_errors, paths
from rapt.attacks import AnyAttack
from rapt.attacks.base import Inference, Inversion, Membership
from rapt.attacks.entities import Ner
from rapt.data.config import Gate
from rapt.grid import CLEAN, LOCAL, TUNED, plan
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
    level,
    problem,
    unique,
)
from rapt.paths import PARAMS
from rapt.privacy.config import (
    Calibrate,
    Categories,
    ChannelConfig,
    Mechanism,
    PlainTokensConfig,
)
from rapt.privacy.mechanisms import MECHANISMS
from rapt.privacy.released import Released
from rapt.tasks import AnyTask
from rapt.tasks.base import Task
from rapt.tuning.config import (
    Backbone,
    Decoding,
    Denoiser,
    PosteriorTarget,
    Reconstruction,
    TrainConfig,
)
from rapt.tuning.tuners import AnyTuner
from rapt.utils.errors import RaptError, not_allowed

UniversalPos = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X",
]  # fmt: skip


# What a use of a release may need of its unit (`Released`), in words.
NEEDED = {
    "aligned": "a word for each word",
    "has_channel": "words alone, one for each word",
    "has_words": "words",
}


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
        "recovers at most a fifth of them"
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
    memberships: Names = Field(description="attacks on tuned adapters")
    layers: Annotated[list[str], AfterValidator(unique)] = Field(
        description="METHOD-ETA whose hidden states are compared with the clean model's"
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
        """A method by its name; `clean` releases the words as they are."""
        return Method(mechanism="t2t") if name == CLEAN else self.methods[name]  # type: ignore[arg-type]

    def kind(self, task: str) -> type[Kind]:
        """The provider's half of the kind of a task."""
        return KINDS[self.tasks[task].kind]

    @model_validator(mode="after")
    def _references(self, info: ValidationInfo) -> Params:
        # Names that are wrong make cells collide, too.
        lines = list(self._reference_problems()) or list(self._collisions())
        if lines:
            raise PydanticCustomError("references", "{lines}", {"lines": "\n".join(lines)})
        return self

    def _reference_problems(self) -> Iterable[str]:
        """Every name that stands for an entry elsewhere must stand there, and fit its use."""
        unknown = [
            not_allowed(f"sweep.{field}", name, getattr(self, field))
            for field in ("tasks", "methods", "embeddings")
            for name in getattr(self.sweep, field)
            if name not in getattr(self, field)
        ]
        if unknown:  # what follows would repeat it, and advise the typo to the lists that read it
            yield from unknown
            return
        swept = {name: self.tasks[name] for name in self.sweep.tasks}
        if kindless := [name for name, task in self.tasks.items() if task.kind not in KINDS]:
            for name in kindless:
                yield not_allowed(f"tasks.{name}.kind", self.tasks[name].kind, KINDS)
            return
        tuned = [name for name, task in swept.items() if task.is_tuned]
        scored = [name for name in tuned if swept[name].scored_apart]
        readers = self.sweep.channel_readers
        for field, names in self._allowed(swept, tuned, scored).items():
            for given in getattr(self.sweep, field):
                if given not in names:
                    yield not_allowed(f"sweep.{field}", given, names)
        if readers and not self.channel.by_frequency:
            yield f"channel.by_frequency: got 0, expected a number above 0 with {readers}."
        if self.embedding not in self.sweep.embeddings:
            yield not_allowed("embedding", self.embedding, self.sweep.embeddings)
        factors: dict[str, Iterable[str]] = {
            "task": [name for name in tuned if name not in scored],
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
            if not isinstance(how, Inversion):
                continue
            if how.takes > self.seeds:
                yield f"attacks.{name}.copies: got {how.takes}, expected at most {self.seeds}."
            for task in how.reads:
                if task not in swept:
                    yield not_allowed(f"attacks.{name}.public_text", task, swept)
        yield from self._untunable()
        yield from self._words_alone()
        yield from self._gradients()
        yield from self._without_clean()
        yield from self._scored_apart(scored)
        yield from self._without_classes()
        yield from dict.fromkeys(self._of_units())

    def _allowed(
        self, swept: Mapping[str, Task], tuned: list[str], scored: list[str]
    ) -> dict[str, Iterable[str]]:
        """For each list of the sweep the names that it may hold."""
        sweep = self.sweep
        # P(y|w) is a channel from words to words; what reads it reads a release, too.
        released = sweep.methods if sweep.channel_readers else self.methods
        inversions = {n: how for n, how in self.attacks.items() if isinstance(how, Inversion)}
        drawn = [name for name, how in self.methods.items() if how.releases.has_channel]
        return {
            "train": tuned,
            "score": [name for name in sweep.train if name in scored],
            "invert": swept,
            "infer": [name for name, task in swept.items() if task.inferred],
            "recognize": swept,
            "embeddings": self.embeddings,
            "backbones": self.backbones,
            "tuners": self.tuners,
            "probes": [name for name in self.tuners if name not in sweep.tuners],
            "methods": self.methods,
            "tune_at": sweep.etas,
            "attacked": sweep.methods,
            "channels": [name for name in drawn if name in released],
            "denoisers": self.denoisers,
            "inversions": [n for n, how in inversions.items() if not how.reads_channel],
            "channel_inversions": [n for n, how in inversions.items() if how.reads_channel],
            "inferences": [n for n, how in self.attacks.items() if isinstance(how, Inference)],
            "memberships": [n for n, how in self.attacks.items() if isinstance(how, Membership)],
            "recognitions": [n for n, how in self.attacks.items() if isinstance(how, Ner)],
            "layers": [f"{method}-{eta}" for method, eta in product(sweep.methods, sweep.tune_at)],
        }

    def _untunable(self) -> Iterable[str]:
        """Every tuner fits its tasks, and its backbones: of a fresh encoder all weights learn."""
        sweep = self.sweep
        given = {
            (f"sweep.{key}", *factors)
            for key in ("tuners", "probes")
            for factors in product(sweep.train, sweep.backbones, getattr(sweep, key))
        } | {
            (f"studies.{name}.tuner", s.task, s.backbone, s.tuner)
            for name, s in self.studies.items()
        }
        full = [name for name, tuner in self.tuners.items() if tuner.learns == "backbone"]
        for key, task, backbone, tuner in sorted(given):
            if task not in self.tasks or backbone not in self.backbones or tuner not in self.tuners:
                continue  # told elsewhere
            kind, encoder = self.kind(task), self.backbones[backbone].encoder
            if not self.tuners[tuner].fits(kind):
                others = [name for name, other in self.tuners.items() if other.fits(kind)]
                yield not_allowed(f"{key} (with task {task}, of kind {kind.name})", tuner, others)
            elif encoder and kind.is_language_model:
                yield (
                    f"backbones.{backbone}.encoder: got one with task {task}, of kind {kind.name}, "
                    "expected null. A language model answers."
                )
            elif encoder and tuner not in full:
                yield not_allowed(f"{key} (with backbone {backbone})", tuner, full)

    def _words_alone(self) -> Iterable[str]:
        """TF-IDF has no hidden states to compare, and no vectors to denoise."""
        for tuner, key in product(self.sweep.tuners, ("denoisers", "layers")):
            of = self.tuners.get(tuner)
            if of and of.reads_words and getattr(self.sweep, key):
                yield (
                    f"sweep.{key}: got some with tuner {tuner}, which reads words alone, expected "
                    "none. List it in sweep.probes."
                )

    def _gradients(self) -> Iterable[str]:
        """A capped reconstruction has a gradient of its own."""
        given = self.train.gradient.type
        for name, method in self.methods.items():
            if given != "plain" and method.reconstruction and method.reconstruction.cap:
                yield (
                    f"train.gradient: got {given} with methods.{name}.reconstruction.cap, expected "
                    "plain, or no cap."
                )

    def _without_clean(self) -> Iterable[str]:
        """Hidden states are compared layer by layer with those of the clean model."""
        for task in self.sweep.train if self.sweep.layers else ():
            if task not in self.tasks:
                continue
            kind = self.kind(task)
            if kind.is_language_model or not kind.has_classes:
                yield (
                    f"sweep.layers: got task {task}, of kind {kind.name}, expected kind classify. "
                    "Empty sweep.layers."
                )
        for name in self.sweep.backbones if self.sweep.layers else ():
            if name in self.backbones and self.backbones[name].encoder:
                yield f"sweep.layers: got backbone {name} with an encoder, expected one without."

    def _scored_apart(self, scored: list[str]) -> Iterable[str]:
        """Texts are written of words, and scored by the stage `score` alone."""
        sweep = self.sweep
        tuned = [name for name in scored if name in sweep.train]
        if left := [name for name in tuned if name not in sweep.score]:
            kind = self.tasks[left[0]].kind
            yield f"sweep.score: got no {', '.join(left)}, expected every task of kind {kind}."
        for key in ("probes", "denoisers") if tuned else ():
            if getattr(sweep, key):
                yield self._no_use(key, tuned[0])

    def _without_classes(self) -> Iterable[str]:
        """An attack on memberships asks a model for the probabilities of classes."""
        for task in self.sweep.train if self.sweep.memberships else ():
            if task in self.tasks and not self.kind(task).has_classes:
                yield self._no_use("memberships", task)

    def _no_use(self, key: str, task: str) -> str:
        kind = self.tasks[task].kind
        return f"sweep.{key}: got some with task {task}, of kind {kind}, expected none."

    def _of_units(self) -> Iterable[str]:
        """What reads words, or words one for one, has a release of such."""
        for method, use, needs in self._uses():
            unit = self.methods[method].releases if method in self.methods else None
            if unit and not getattr(unit, needs):
                yield (
                    f"methods.{method}: got a mechanism that releases {unit.name}, with {use}, "
                    f"expected one that releases {NEEDED[needs]}."
                )

    def _uses(self) -> Iterable[tuple[str, str, str]]:
        """Each method, a use of its releases, and what of `Released` the use needs."""
        sweep = self.sweep
        tuned = [
            (method, task, tuner)
            for methods, tuners in ((sweep.methods, sweep.tuners), (sweep.attacked, sweep.probes))
            for method, task, tuner in product(methods, sweep.train, tuners)
        ] + [(study.method, study.task, study.tuner) for study in self.studies.values()]
        released = [*product(sweep.methods, sweep.tasks)]
        released += [(study.method, study.task) for study in self.studies.values()]
        for method, task in released:
            if task in self.tasks and (needs := self.kind(task).needs_of_release):
                yield method, f"task {task} of kind {self.tasks[task].kind}", needs
        for method, _, tuner in dict.fromkeys(tuned):
            if tuner in self.tuners and self.tuners[tuner].reads_words:
                yield method, f"tuner {tuner}", "has_words"
        for method, eta in product(sweep.methods, sweep.etas):
            if level(eta) is not None:
                yield method, f"the level {eta}", "aligned"
        of_words = [*(sweep.inversions if sweep.invert else ())]
        of_words += sweep.recognitions if sweep.recognize else ()
        for method, attack in product(sweep.attacked, of_words):
            yield method, f"attack {attack}", "aligned"
        for method, attack in product(sweep.attacked, sweep.inferences if sweep.infer else ()):
            how = self.attacks.get(attack)
            if isinstance(how, Inference) and how.reads_words:
                yield method, f"attack {attack}", "has_words"

    def _collisions(self) -> Iterable[str]:
        """Cells are named by their factors joined by hyphens: two must not come out the same."""
        if "studies" in self.tasks:
            yield "tasks.studies: got the name of the studies' folder, expected another."
        for name in {CLEAN, LOCAL} & self.methods.keys():
            yield f"methods.{name}: got the name of a baseline, expected another."
        # The adapters of all tuned cells lie in one folder.
        given = Counter((c.kind if c.kind not in TUNED else "tuned", c.cell) for c in plan(self))
        for name in sorted({name for (_, name), count in given.items() if count > 1}):
            yield f"{name}: got two cells of this name, expected one. Rename a factor."


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
