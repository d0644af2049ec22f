"""Ideas for a better front on finished releases: `python -m evidence.fronts sst2`.

evidence/fronts.md says what was expected of each before it ran. Run it where the preset
`leaderboard` has run on the task, with the lexicon of vaderSentiment in external/vader_lexicon.txt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from transformers import AutoModel

from benchmarks.run import machine
from rapt import models, params, paths
from rapt.analysis.intervals import difference, of_accuracy
from rapt.attacks.base import Public, Release
from rapt.attacks.bayesian import likeliest, posterior
from rapt.attacks.scores import intervals
from rapt.attacks.victims import Victims
from rapt.baselines import local
from rapt.baselines.combined import combined, weights
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from rapt.privacy.posterior import Posterior
from rapt.text.table import EmbeddingTable
from rapt.tuning import tfidf
from rapt.tuning.config import Backbone
from rapt.utils import files

LEVELS = ("recovered-50", "recovered-35", "recovered-20")
MILD, STRONG = "recovered-50", "recovered-20"
BATCH = 64
SPLITS = ("train", "test")
Texts = list[list[str]]
Features = Any  # dense or sparse, (n, features)
Encode = Callable[[Texts], Features]


class Task:
    """A task's raw words and labels, and its releases with their channels."""

    def __init__(self, name: str) -> None:
        self.p, self.name = params.load(), name
        self.table = EmbeddingTable(paths.table(self.p.embedding))
        self.raw = {s: files.read_parquet(paths.tagged(name) / f"{s}.parquet") for s in SPLITS}
        self.labels = {split: rows["label"].to_numpy() for split, rows in self.raw.items()}
        self.held_out = np.array(self.p.train.holds_out(len(self.labels["train"])))
        lexicon = Path("external/vader_lexicon.txt").read_text(encoding="utf-8").splitlines()
        self.opinions = {line.split("\t")[0] for line in lexicon}

    def words(self, method: str, eta: str, k: int) -> dict[str, Texts]:
        """The released words of seed k."""
        folder = paths.release(self.name, f"{method}-{eta}") / f"seed-{k}"
        return {
            s: files.read_parquet(folder / f"{s}.parquet", ["words"])["words"].to_pylist()
            for s in SPLITS
        }

    def original(self, split: str) -> Texts:
        """The words as they were written."""
        words: Texts = self.raw[split]["words"].to_pylist()
        return words

    def is_opinion(self, split: str) -> list[list[bool]]:
        """Whether each word of each text is on the list."""
        return [[word.lower() in self.opinions for word in text] for text in self.original(split)]

    def public(self, method: str, eta: str) -> Public:
        """Public knowledge about a release."""
        how = self.p.methods[method]
        privatizer = seeded.privatizer(self.p.embedding, how.mechanism, how.categories, eta)
        folder = paths.channel(self.p.embedding, f"{method}-{eta}")
        return Public.of(privatizer, Channel.load(folder, len(self.table.words)))


def encoder(backbone: Backbone) -> Encode:
    """Mean-pooled activations of a frozen backbone."""
    folder = models.folder(backbone.model, backbone.sha256)
    tokenizer = models.tokenizer(folder)
    model = models.load(AutoModel, folder).eval()

    @torch.inference_mode()
    def encode(texts: Texts) -> Features:
        order = np.argsort([len(text) for text in texts], kind="stable")  # little padding
        found = torch.empty(len(texts), model.config.hidden_size, dtype=torch.float64)
        for start in range(0, len(texts), BATCH):
            at = order[start : start + BATCH]
            inputs = tokenizer(
                [" ".join(texts[i]) for i in at],
                padding=True,
                truncation=True,
                max_length=128,
                return_tensors="pt",
            )
            hidden = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None]
            found[torch.from_numpy(at)] = ((hidden * mask).sum(1) / mask.sum(1)).double()
        return found.numpy()

    return encode


def classified(
    task: Task, train: Features, test: Features
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-probabilities of the rows held out and of the test split."""
    fitted = ~task.held_out
    labels = task.labels["train"][fitted]
    if not sparse.issparse(train):
        # A row's length is then about 1, as that of TF-IDF is: the penalties fit both.
        size = np.sqrt(train.shape[1])
        scale = make_pipeline(StandardScaler(), FunctionTransformer(lambda rows: rows / size))
        train, test = scale.fit(train[fitted]).transform(train), scale.transform(test)
    found = tfidf.search(train[fitted], labels, tfidf.folds("task", labels)).model
    held_out = found.predict_log_proba(train[task.held_out])
    return held_out, found.predict_log_proba(test)


def counted(task: Task, words: dict[str, Texts]) -> tuple[Features, Features]:
    """TF-IDF as the tuner `tfidf` has it, of terms in the rows that are tuned on."""
    train = [[text] for text in words["train"]]
    counts = tfidf.counting(
        [text for text, out in zip(train, task.held_out, strict=True) if not out]
    )
    return tfidf.features(counts, train), tfidf.features(counts, [[t] for t in words["test"]])


def expected(task: Task, found: Posterior, words: dict[str, Texts]) -> tuple[Features, Features]:
    """TF-IDF of single words, each released one as the words that it may have been."""
    matrix = found.matrix
    # A word without a posterior stands as it is.
    kept = sparse.diags_array((np.diff(matrix.indptr) == 0).astype(np.float64))
    matrix = sparse.csr_array(matrix + kept)
    size = len(task.table.words)

    def of(texts: Texts) -> sparse.csr_array:
        rows = [row[row >= 0] for row in map(task.table.rows, texts)]
        text = np.repeat(np.arange(len(texts)), [len(row) for row in rows])
        ones = np.ones(len(text))
        counts = sparse.csr_array((ones, (text, np.concatenate(rows))), (len(texts), size))
        return sparse.csr_array(counts @ matrix)

    train, test = of(words["train"]), of(words["test"])
    document = np.asarray((train > 0.05).sum(axis=0)).ravel()
    idf = sparse.diags_array(np.log((1 + len(task.labels["train"])) / (1 + document)) + 1)

    def scaled(counts: sparse.csr_array) -> sparse.csr_array:
        weighted = sparse.csr_array(counts @ idf)
        length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ weighted)

    return scaled(train), scaled(test)


class Front:
    """Accuracy of what is sent, alone and with the local model, and the words that are read."""

    def __init__(self, task: Task, encode: Encode, seeds: int) -> None:
        self.task, self.encode, self.seeds = task, encode, seeds
        raw = {s: [[text] for text in task.original(s)] for s in SPLITS}
        labels = task.labels["train"]
        model, *_ = local.fit(task.name, raw["train"], labels, labels.max() + 1, task.table)
        self.local = model.held_out[task.held_out], model.logits(raw["test"])
        self.rows: dict[str, dict[str, Any]] = {}  # by release and tuner
        # Whether each seed is right about each test text, for the rows that others are held to.
        self.right: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self.add("nothing sent", {"local": np.array([self.local[1]])}, None)

    def add(
        self,
        name: str,
        answers: dict[str, NDArray[np.float64]],
        recovered: tuple[float, float, float] | None,
        against: str | None = None,
    ) -> None:
        """Score the answers of each tuner, (seeds, n, classes), and hold them to another row."""
        for tuner, logits in answers.items():
            right = logits.argmax(axis=-1) == self.task.labels["test"]
            row: dict[str, Any] = {"accuracy": span(right)}
            if recovered:
                row["recovered"] = dict(zip(("mean", "low", "high"), recovered, strict=True))
            for other, key in (
                (against, (against, tuner)),
                ("nothing sent", ("nothing sent", "local")),
            ):
                if key in self.right:
                    row[f"over {other}"] = span_of(difference(right, self.right[key]))
            self.right[name, tuner] = right
            self.rows.setdefault(name, {})[tuner] = row

    def release(
        self,
        name: str,
        words: Callable[[int], dict[str, Texts]],
        recovered: tuple[float, float, float],
        against: str | None = None,
        features: dict[str, Callable[[dict[str, Texts]], tuple[Features, Features]]] | None = None,
    ) -> None:
        """Tune each seed's words on features of each kind, and weigh them with the local model."""
        kinds = features or {"linear-probe": self.encoded, "tfidf": lambda w: counted(self.task, w)}
        found: dict[str, list[NDArray[np.float64]]] = {}
        for k in range(self.seeds):
            own = words(k)
            for tuner, of in kinds.items():
                held_out, test = classified(self.task, *of(own))
                labels = self.task.labels["train"][self.task.held_out]
                weight = weights(held_out, self.local[0], labels)
                found.setdefault(tuner, []).append(test)
                both = combined(weight, test, self.local[1])
                found.setdefault(f"{tuner} + local", []).append(both)
        self.add(name, {tuner: np.array(each) for tuner, each in found.items()}, recovered, against)

    def encoded(self, words: dict[str, Texts]) -> tuple[Features, Features]:
        """Activations of the frozen backbone."""
        return self.encode(words["train"]), self.encode(words["test"])


def read(
    task: Task, public: Public, words: Callable[[int], dict[str, Texts]], seeds: int
) -> tuple[float, float, float]:
    """The share of the test split's protected words that the Bayesian attacker recovers."""
    assert public.privatizer
    texts = [
        public.privatizer.text(*row) for row in seeded.rows_of(task.raw["test"], *seeded.TAGGED)
    ]
    victims = Victims(task.original("test"), [text.groups for text in texts], task.table.form)
    scores = []
    for k in range(seeds):
        release = Release(words(k)["test"])
        scores.append(
            victims.score(likeliest(posterior(public, "release", [release]), task.table, [release]))
        )
    mean = float(np.mean([score.metrics()["accuracy_protected"] for score in scores]))
    return mean, *intervals(scores)["accuracy_protected"]


def main(
    name: Annotated[str, typer.Argument(metavar="TASK")],
    backbone: Annotated[str, typer.Option(help="Of params.yaml; frozen.")] = "minilm",
    seeds: Annotated[int, typer.Option(help="The first of params.yaml's.")] = 3,
) -> None:
    """Compute the front of TASK with each idea."""
    torch.set_num_threads(1)
    task = Task(name)
    front = Front(task, encoder(task.p.backbones[backbone]), seeds)

    def released(method: str, eta: str) -> Callable[[int], dict[str, Texts]]:
        return lambda k: task.words(method, eta, k)

    front.release("clean", lambda k: {s: task.original(s) for s in SPLITS}, (1.0, 1.0, 1.0))
    for method in ("t2t", "pct2t"):
        for eta in LEVELS:
            public, words = task.public(method, eta), released(method, eta)
            recovered = read(task, public, words, seeds)
            front.release(f"{method} {eta}", words, recovered)
            of = by_posterior(task, public)
            front.release(
                f"{method} {eta}, expected words",
                words,
                recovered,
                f"{method} {eta}",
                {"tfidf": of},
            )
    by_need(task, front, released)
    middle = released("t2t", LEVELS[1])
    recovered = read(task, task.public("t2t", LEVELS[1]), middle, seeds)
    bags = lambda k: shuffled(middle(k), k)  # noqa: E731
    front.release(f"t2t {LEVELS[1]}, a bag", bags, recovered, f"t2t {LEVELS[1]}")
    files.write_json(
        f"evidence/fronts/{name}-{backbone}.json",
        {"machine": machine(), "seeds": seeds, "releases": front.rows},
    )


def by_posterior(
    task: Task, public: Public
) -> Callable[[dict[str, Texts]], tuple[Features, Features]]:
    """Features of idea 4."""

    def of(words: dict[str, Texts]) -> tuple[Features, Features]:
        return expected(task, posterior(public, "release", [Release(words["train"])]), words)

    return of


def by_need(
    task: Task, front: Front, released: Callable[[str, str], Callable[[int], dict[str, Texts]]]
) -> None:
    """Ideas 2 and 3."""
    mild, strong = released("t2t", MILD), released("t2t", STRONG)
    chosen = {split: task.is_opinion(split) for split in SPLITS}

    def mixed(k: int) -> dict[str, Texts]:
        milds, strongs = mild(k), strong(k)
        return {
            s: [
                [a if is_one else b for is_one, a, b in zip(*text, strict=True)]
                for text in zip(chosen[s], milds[s], strongs[s], strict=True)
            ]
            for s in SPLITS
        }

    channels = {eta: task.public("t2t", eta) for eta in (MILD, STRONG)}
    opinions = np.array([word in task.opinions for word in task.table.words])
    parts = []
    for eta, wanted in ((MILD, opinions), (STRONG, ~opinions)):
        channel = channels[eta].channel
        assert channel
        parts.append(channel.of(wanted[channel.rows]))
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    counts = sparse.csr_array(sparse.vstack([part.counts for part in parts]))[order]
    public = replace(channels[STRONG], channel=Channel(rows[order], sparse.csr_array(counts)))
    recovered = read(task, public, mixed, front.seeds)
    front.release("t2t by need", mixed, recovered, f"t2t {STRONG}")

    def only(k: int) -> dict[str, Texts]:
        return {
            s: [
                [word for word, is_one in zip(*text, strict=True) if is_one]
                for text in zip(task.original(s), chosen[s], strict=True)
            ]
            for s in SPLITS
        }

    share = float(np.mean(list(chain.from_iterable(chosen["test"]))))
    front.release("opinions alone", only, (share, share, share))


def shuffled(words: dict[str, Texts], k: int) -> dict[str, Texts]:
    """Idea 5."""
    rng = np.random.default_rng(k)
    return {s: [list(rng.permutation(text)) for text in texts] for s, texts in words.items()}


def span(right: NDArray[np.bool_]) -> dict[str, float]:
    """An accuracy with its interval over texts and seeds."""
    return span_of((float(right.mean()), *of_accuracy(right)))


def span_of(found: tuple[float, float, float]) -> dict[str, float]:
    """A figure with the ends of its interval, by name."""
    return dict(zip(("mean", "low", "high"), found, strict=True))


if __name__ == "__main__":
    typer.run(main)
