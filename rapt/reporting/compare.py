"""Comparison of two commits or DVC experiments: changed params and results."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from rapt.errors import RaptError, not_allowed
from rapt.reporting.text import MINUS, count, flat

PARAMS, METRICS = "params.yaml", "reports/metrics.json"
ABSENT = "–"


@dataclass(frozen=True)
class Change:
    """A param or a metric that differs between two revisions; None: it is missing."""

    name: str
    before: Any
    after: Any

    @property
    def difference(self) -> float | None:
        """The change of a number, if both revisions have it."""
        both = (self.before, self.after)
        return self.after - self.before if all(isinstance(v, int | float) for v in both) else None


@dataclass(frozen=True)
class Revision:
    """The params and metrics of a revision, or of the working folder."""

    params: dict[str, str]
    # "KIND CELL METRIC" → mean.
    metrics: dict[str, float]


def compare(a: str, b: str | None) -> None:
    """Print the changes from one revision to another, or to the working folder.

    Args:
        a: a commit, branch, tag or DVC experiment.
        b: another one; None: the working folder.

    Raises:
        RaptError: git knows no such revision, or it has no params or no results.
    """
    before, after = read(a), read(b)
    console = Console()
    names = (a, b or "working folder")
    params = changes(before.params, after.params)
    results = changes(before.metrics, after.metrics)
    same = len(before.metrics.keys() | after.metrics.keys()) - len(results)
    _print(console, "params.yaml", names, params)
    _print(console, "Results", names, results)
    console.print(
        f"{count(len(params), 'param')} and {count(len(results), 'metric')} differ; "
        f"{count(same, 'metric')} equal."
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the entries that differ, in the order of `before`."""
    names = dict.fromkeys([*before, *after])
    found = (Change(name, before.get(name), after.get(name)) for name in names)
    return [change for change in found if change.before != change.after]


def read(revision: str | None) -> Revision:
    """Read the params and metrics of a revision; None: of the working folder."""
    params = YAML(typ="safe").load(_text(revision, PARAMS))
    metrics = json.loads(_text(revision, METRICS))
    return Revision(
        flat("", params),
        {
            f"{kind} {cell} {metric}": value
            for kind, cells in metrics.items()
            for cell, means in cells.items()
            for metric, value in means.items()
        },
    )


def _text(revision: str | None, path: str) -> str:
    if revision is None:
        if not Path(path).is_file():
            raise RaptError(f"{path}: not there; dvc repro report")
        return Path(path).read_text()
    shown = _git("show", f"{_commit(revision)}:./{path}")
    if shown is None:
        raise RaptError(f"{revision}: holds no {path}")
    return shown


def _commit(revision: str) -> str:
    """Resolve a name known to git, or a DVC experiment's, to a commit or ref."""
    given = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if given:
        return given.strip()
    refs = _git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/exps")
    if refs is None:
        raise RaptError(f"{revision}: git knows no revisions here")
    # refs/heads/NAME, refs/tags/NAME; DVC: refs/exps/12/345…/NAME.
    named = {
        ref.split("/", 4 if ref.startswith("refs/exps/") else 2)[-1]: ref
        for ref in refs.split()
        if not ref.startswith(("refs/exps/stash", "refs/exps/exec", "refs/exps/celery"))
    }
    if revision not in named:
        raise RaptError(not_allowed("revision", revision, {"HEAD", *named}))
    return named[revision]


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _print(console: Console, title: str, names: tuple[str, str], changes: list[Change]) -> None:
    if not changes:
        console.print(f"{title}: nothing changed.")
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", overflow="fold")
    numbers = any(change.difference is not None for change in changes)
    for name in (*names, *(["difference"] if numbers else [])):
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for change in changes:
        difference = change.difference
        shown = [_shown(change.before), _shown(change.after)]
        if numbers:
            shown.append(ABSENT if difference is None else _signed(difference))
        table.add_row(change.name, *shown)
    console.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4f}".replace("-", MINUS) if isinstance(value, float) else str(value)


def _signed(difference: float) -> str:
    return f"{difference:+.4f}".replace("-", MINUS)
