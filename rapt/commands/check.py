"""Checks of params.yaml, local files and models, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rapt import models, params, paths
from rapt.data.config import FilesSource
from rapt.param_types import level
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.data.prepare import Prepared


def check() -> params.Params:
    """Validate params.yaml, the local files and the models that it names; nothing is fetched.

    Raises:
        RaptError: a line for each problem.
    """
    p = params.load()
    refuse([*of_what_runs(p), *of_files(p)])
    return p


def refuse(problems: Iterable[str]) -> None:
    """Raise an error with a line for each problem, if there is one."""
    if lines := "\n".join(problems):
        raise RaptError(lines)


def of_what_runs(p: params.Params) -> Iterator[str]:
    """Yield a line for each model that is not there, and for each method that is weak."""
    yield from _model_problems(p)
    yield from _weak_problems(p)


def of_files(p: params.Params) -> Iterator[str]:
    """Yield a line for each task whose files, which DVC does not know, cannot be used."""
    for name in p.sweep.tasks:
        if isinstance(p.tasks[name].source, FilesSource):
            try:
                prepared(name, p)
            except RaptError as error:
                yield str(error)


def prepared(name: str, p: params.Params, least_class: int = 2) -> Prepared:
    """Prepare a task's examples, and check that there are enough of each split and of each class.

    Args:
        name: the task's.
        p: params.yaml.
        least_class: training rows that each class needs if the task is tuned on; cross-validation
            needs two.

    Raises:
        RaptError: one line, which never contains text of the data.
    """
    from rapt.data.prepare import prepare  # pandas, which every flow would wait for

    found = prepare(name, p.tasks[name], p.seed)
    for split, count in found.summary["rows"].items():
        if count < p.gate.min_rows:
            dropped = f" (left out: {found.dropped})" if found.dropped else ""
            raise RaptError(
                f"gate.min_rows: got {count} rows of tasks.{name} to {split}{dropped}, expected at "
                f"least {p.gate.min_rows}. Add rows, or lower it in params.yaml."
            )
    if name in p.sweep.train:
        p.tasks[name].check_enough(name, found.tables["train"], least_class)
    return found


def _weak_problems(p: params.Params) -> Iterator[str]:
    """Yield a line for each method whose largest η is weak; nothing before there is a table."""
    from rapt.measures import strength
    from rapt.privacy import seeded
    from rapt.privacy.privatizer import of_words

    etas = [eta for eta in p.sweep.etas if level(eta) is None]
    if p.allow_weak or not etas or not (paths.table(p.embedding) / "words.json").is_file():
        return
    seen: list[object] = []  # methods may share mechanism and categories
    for name in p.sweep.methods:
        law = p.methods[name].mechanism, p.methods[name].categories
        if law in seen:
            continue
        seen.append(law)
        try:
            largest = seeded.privatizer(p.embedding, *law, max(etas, key=float))
            if largest.releases.aligned:
                strength.check(of_words(largest), "allow_weak: true")
        except RaptError as error:
            yield f"sweep.etas, method {name}: {error}"


def _model_problems(p: params.Params) -> Iterator[str]:
    """Yield a line for each model of the sweep that should be on this machine and is not."""
    sweep = p.sweep
    backbones = {*sweep.backbones, *(study.backbone for study in p.studies.values())}
    attacks = {*sweep.inversions, *sweep.channel_inversions, *sweep.inferences}
    used = {
        **{f"embeddings.{name}": p.embeddings[name] for name in sweep.embeddings},
        **{f"backbones.{name}": p.backbones[name] for name in sorted(backbones)},
        **{f"attacks.{name}": p.attacks[name] for name in sorted(attacks)},
    }
    for key, entry in used.items():
        model = getattr(entry, "model", None)
        if model and "@" not in model:  # a model on the hub is fetched when it is needed
            is_table = key.startswith("embeddings.")
            try:
                found = models.folder(model, None, static=is_table)
            except RaptError:
                yield (
                    f"{key}.model: got {model!r}, expected a folder with safetensors, "
                    "package:NAME/FOLDER of an installed package, or owner/name@REVISION. "
                    "Install it, or correct the name."
                )
                continue
            if is_table:
                from rapt.text import embeddings  # wordfreq, which every flow would wait for

                try:
                    embeddings.check(found)
                except RaptError as error:
                    yield f"{key}.{error}"
