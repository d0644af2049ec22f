"""One sentence on the differences between the params and a paper's experiment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rapt.params import Params
from rapt.reporting.papers.published_values import backbone_name, embedding_name
from rapt.reporting.text import listing


@dataclass(frozen=True)
class Experiment:
    """The settings of a paper's experiment.

    Attributes:
        tasks: tasks that it tunes on, by the names of params.yaml.
        backbones: backbones, by the paper's names.
        embedding: model whose table the words are privatized on.
        epochs: epochs of training.
        batch_size: batch size of training.
        max_tokens: most tokens of a text.
        seeds: number of seeds that it averages over; None: not stated.
        learning_rate: learning rate; None: it has several.
        plain_tokens: plain tokens before each text; None: it has none.
    """

    tasks: tuple[str, ...]
    backbones: tuple[str, ...]
    embedding: str
    epochs: int
    batch_size: int
    max_tokens: int
    seeds: int | None
    learning_rate: float | None
    plain_tokens: int | None


RAPT = Experiment(
    tasks=("sst2", "qqp", "tpuk"),
    backbones=("bert-base-uncased", "qwen2.5-3b"),
    embedding="bert-base-uncased",
    epochs=4,
    batch_size=128,
    max_tokens=128,
    seeds=5,
    learning_rate=6e-5,
    plain_tokens=40,
)
# The paper does not state which attack runs on which of its data.
ATTACKED = replace(RAPT, tasks=())
QU = Experiment(
    tasks=("sst2", "qqp"),
    backbones=("bert-base-uncased", "bilstm"),
    embedding="bert-base-uncased",
    epochs=3,
    batch_size=32,
    max_tokens=128,
    seeds=None,
    learning_rate=None,
    plain_tokens=None,
)


def trained(params: Params, paper: Experiment) -> str:
    """Describe the differences for a table of tuned cells."""
    sweep, train, studies = params.sweep, params.train, params.studies.values()
    backbones = dict.fromkeys([*sweep.backbones, *(study.backbone for study in studies)])
    tuners = dict.fromkeys([*sweep.tuners, *(study.tuner for study in studies)])
    rates = dict.fromkeys(
        tuner.learning_rate
        for name in tuners
        if (tuner := params.tuners[name]).type != "linear-probe"
    )
    lengths = {
        tokens.length for name in sweep.methods if (tokens := params.methods[name].plain_tokens)
    }
    return _sentence(
        [
            *_data(params, sweep.train, paper),
            *_named(
                "backbone", [(n, backbone_name(params, n)) for n in backbones], paper.backbones
            ),
            *_table(params, paper),
            *_numbers("epochs", [train.epochs], paper.epochs),
            *_numbers("texts a batch", [train.batch_size], paper.batch_size),
            *_numbers("tokens of a text", [train.max_tokens], paper.max_tokens),
            *_numbers("learning rate", rates, paper.learning_rate),
            *_numbers("plain tokens", sorted(lengths), paper.plain_tokens),
            *_numbers("seeds", [params.seeds], paper.seeds),
        ]
    )


def attacked(params: Params, paper: Experiment) -> str:
    """Describe the differences for a table of attacks."""
    return _sentence([*_data(params, params.sweep.tasks, paper), *_table(params, paper)])


def privatized(params: Params, paper: Experiment) -> str:
    """Describe the differences for a table of privatized words."""
    return _sentence(_table(params, paper))


def _data(params: Params, tasks: Iterable[str], paper: Experiment) -> list[str]:
    """List tasks that are not the paper's, or whose training rows are limited."""
    cut = {name: params.tasks[name].rows.train for name in tasks}
    own = [
        f"{name} with {f'{rows:,}' if rows else 'all'} training texts"
        for name, rows in cut.items()
        if rows or name not in paper.tasks
    ]
    papers = f" ({listing(paper.tasks)}, whole)" if paper.tasks else ""
    return [f"data {listing(own)}{papers}"] if own else []


def _table(params: Params, paper: Experiment) -> list[str]:
    names = [(name, embedding_name(params, name)) for name in params.sweep.embeddings]
    return _named("table of words", names, (paper.embedding,))


def _named(what: str, names: Iterable[tuple[str, str]], known: tuple[str, ...]) -> list[str]:
    own = [name for name, printed in names if printed not in known]
    return [f"{what} {listing(own)} ({listing(known)})"] if own else []


def _numbers(what: str, own: Iterable[float], paper: float | None) -> list[str]:
    given = list(own)
    if paper is None or set(given) <= {paper}:
        return []
    return [f"{what} {listing([f'{number:,g}' for number in given])} ({paper:,g})"]


def _sentence(parts: list[str]) -> str:
    if not parts:
        return "Nothing that params.yaml says of it differs from what the paper says."
    return f"Here, with the paper's in parentheses: {'; '.join(parts)}."
