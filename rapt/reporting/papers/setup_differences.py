"""One sentence on the differences between the params and a paper's experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rapt.params import Params
from rapt.reporting.papers.layout import Experiment
from rapt.reporting.papers.settings import backbone_name, embedding_name
from rapt.reporting.text import listing


def differences(params: Params, paper: Experiment, compared: str) -> str:
    """Describe the differences that concern a table.

    Args:
        params: the params of the experiment here.
        paper: the paper's experiment.
        compared: what the table is of: `words` (privatized), `attacks`, or `training`.
    """
    match compared:
        case "words":
            parts = _table(params, paper)
        case "attacks":
            parts = [*_data(params, params.sweep.tasks, paper), *_table(params, paper)]
        case _:
            parts = _training(params, paper)
    if not parts:
        return "Nothing that params.yaml says of it differs from what the paper says."
    return f"Here, with the paper's in parentheses: {'; '.join(parts)}."


def _training(params: Params, paper: Experiment) -> list[str]:
    sweep, train, studies = params.sweep, params.train, params.studies.values()
    backbones = dict.fromkeys([*sweep.backbones, *(study.backbone for study in studies)])
    tuners = [params.tuners[n] for n in (*sweep.tuners, *(study.tuner for study in studies))]
    rates = dict.fromkeys(t.learning_rate for t in tuners if t.type != "linear-probe")
    plain = [params.methods[name].plain_tokens for name in sweep.methods]
    named = [(name, backbone_name(params, name)) for name in backbones]
    return [
        *_data(params, sweep.train, paper),
        *_named("backbone", named, paper.backbones),
        *_table(params, paper),
        *_numbers("epochs", [train.epochs], paper.epochs),
        *_numbers("texts a batch", [train.batch_size], paper.batch_size),
        *_numbers("tokens of a text", [train.max_tokens], paper.max_tokens),
        *_numbers("learning rate", rates, paper.learning_rate),
        *_numbers("plain tokens", sorted({p.length for p in plain if p}), paper.plain_tokens),
        *_numbers("seeds", [params.seeds], paper.seeds),
    ]


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


def _named(what: str, names: Iterable[tuple[str, str]], known: Sequence[str]) -> list[str]:
    own = [name for name, printed in names if printed not in known]
    return [f"{what} {listing(own)} ({listing(known)})"] if own else []


def _numbers(what: str, own: Iterable[float], paper: float | None) -> list[str]:
    given = list(own)
    if paper is None or set(given) <= {paper}:
        return []
    return [f"{what} {listing([f'{number:,g}' for number in given])} ({paper:,g})"]
