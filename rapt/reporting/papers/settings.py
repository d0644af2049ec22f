"""An experiment in the papers' terms: their names, what their studies vary, what differs here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rapt.params import Method, Params
from rapt.reporting.papers.layout import Experiment, Study
from rapt.reporting.text import listing

MODELS = {"meta-llama-3-8b": "llama3-8b", "mistral-7b-v0.1": "mistral-7b"}
GROUPS = {"not-seen": "unseen"}


def paper_name(params: Params, factor: str, value: str) -> str:
    """Return the papers' name of a factor's value in params.yaml; its own if they have none."""
    match factor:
        case "attack":
            return params.attacks[value].type
        case "backbone":
            backbone = params.backbones[value]
            return "bilstm" if backbone.encoder else model_name(backbone.model)
        case "embedding":
            return model_name(params.embeddings[value].model)
        case "group":
            return GROUPS.get(value, value)
        case "tuner":
            tuner = params.tuners[value]
            quantized = tuner.type == "lora" and tuner.quantize
            return "qlora" if quantized else tuner.type.removesuffix("-tuning")
    return value


def model_name(model: str) -> str:
    """Return the papers' name of a model of params.yaml, if they have one."""
    name = model.partition("@")[0].rpartition("/")[-1].lower()
    return MODELS.get(name, name)


def setting(study: Study, params: Params, factors: Mapping[str, str]) -> str | None:
    """Return a cell's value of what a study varies; None: the cell is not part of it."""
    method, tuner = params.method(factors["method"]), params.tuners[factors["tuner"]]
    variant, plain = _variant(method), method.plain_tokens
    match study:
        case "embedding":
            return factors["embedding"]
        case "prefix-length" if tuner.type == "prefix-tuning" and variant == "rapt":
            return str(tuner.tokens)
        case "choice" if plain and variant == "rapt":
            return plain.choice
        case "objective" if not plain or plain.choice == "uniform":
            return variant
        case "plain-length" if variant == "without_plain_tokens":
            return "0"
        case "plain-length" if variant == "rapt" and plain:
            return str(plain.length)
    return None


def _variant(method: Method) -> str | None:
    """Return the row of RAPT's Table VIII, a variant of RAPT, that a method is."""
    if not method.categories:
        return None
    if method.reconstruction:
        return "rapt"
    return "without_reconstruction" if method.plain_tokens else "without_plain_tokens"


def differences(params: Params, paper: Experiment, compared: str) -> str:
    """Describe in a sentence how these params differ from a paper's experiment.

    Args:
        params: the params of the experiment here.
        paper: the paper's experiment.
        compared: what the table is of: `words` (privatized), `attacks`, or `training`.
    """
    sweep, train = params.sweep, params.train
    for task in set(sweep.train) & set(paper.tasks):
        paper = replace(paper, **paper.of_task.get(task, {}))
    parts = [_named(params, "embedding", "table of words", sweep.embeddings, [paper.embedding])]
    if compared == "attacks":
        parts.insert(0, _data(params, sweep.tasks, paper))
    elif compared == "training":
        studies = params.studies.values()
        backbones = dict.fromkeys([*sweep.backbones, *(study.backbone for study in studies)])
        tuners = [params.tuners[n] for n in (*sweep.tuners, *(study.tuner for study in studies))]
        rates = dict.fromkeys(t.learning_rate for t in tuners if hasattr(t, "learning_rate"))
        plain = [params.methods[name].plain_tokens for name in sweep.methods]
        parts = [
            _data(params, sweep.train, paper),
            _named(params, "backbone", "backbone", backbones, paper.backbones),
            *parts,
            _numbers("epochs", [train.epochs], paper.epochs),
            _numbers("texts a batch", [train.batch_size], paper.batch_size),
            _numbers("tokens of a text", [train.max_tokens], paper.max_tokens),
            _numbers("learning rate", rates, paper.learning_rate),
            _numbers("plain tokens", sorted({p.length for p in plain if p}), paper.plain_tokens),
            _numbers("seeds", [params.seeds], paper.seeds),
        ]
    if not any(parts):
        return "Nothing that params.yaml says of it differs from what the paper says."
    return f"Here, with the paper's in parentheses: {'; '.join(filter(None, parts))}."


def _data(params: Params, tasks: Iterable[str], paper: Experiment) -> str:
    """List tasks that are not the paper's, or whose training rows are limited."""
    cut = {name: params.tasks[name].rows.train for name in tasks}
    own = [
        f"{name} with {f'{rows:,}' if rows else 'all'} training texts"
        for name, rows in cut.items()
        if rows or name not in paper.tasks
    ]
    papers = f" ({listing(paper.tasks)}, whole)" if paper.tasks else ""
    return f"data {listing(own)}{papers}" if own else ""


def _named(
    params: Params, factor: str, what: str, names: Iterable[str], known: Sequence[str]
) -> str:
    own = [name for name in names if paper_name(params, factor, name) not in known]
    return f"{what} {listing(own)} ({listing(known)})" if own else ""


def _numbers(what: str, own: Iterable[float], paper: float | None) -> str:
    given = list(own)
    if paper is None or set(given) <= {paper}:
        return ""
    return f"{what} {listing([f'{number:,g}' for number in given])} ({paper:,g})"
