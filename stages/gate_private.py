"""Check the releases of a task: `python -m stages.gate_private movies`."""

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from great_expectations import expectations as gxe

from rapt import params, paths
from rapt.grid import CLEAN, releases
from rapt.measures.gate import checked
from rapt.measures.gate_checks import CheckedRelease
from rapt.measures.originals import Originals, originals
from rapt.privacy import levels, seeded
from rapt.privacy.mechanisms import parameters
from rapt.results.gates import write
from stages import run
from stages.expectations import Rule, check, in_set, there


def main(task: str) -> None:
    """Write reports/gates/private/TASK/RELEASE.json for each release; stop if one fails."""
    p = params.load()
    reports = {}
    shared = lru_cache(maxsize=1)(originals)  # by releases of one law, one after the other
    for name, method, eta in sorted(releases(p), key=lambda release: _law(p, *release[1:])):
        of = paths.release(task, name), p, task, method, eta, p.embedding
        reports[name] = compare(*of, read=shared)
    write(paths.GATES / "private" / task, reports)


def _law(p: params.Params, method: str, eta: str) -> str:
    """Name what determines a privatizer, besides its table."""
    how = p.method(method)
    return json.dumps([how.mechanism, how.categories, eta])


def compare(
    folder: Path,
    p: params.Params,
    task: str,
    method: str,
    eta: str,
    embedding: str,
    read: Callable[..., Originals] = originals,
) -> dict[str, Any]:
    """Compare a release with the tagged text that it came from; returns the gate's JSON."""
    how, of_task = p.method(method), p.tasks[task]
    of = read(embedding, _law(p, method, eta), task, p.seed, of_task.shared_noise)
    privatizer = of.privatizer
    promised = {
        **{"task": task, "method": method, "embedding": embedding, "seeds": p.seeds},
        **levels.facts(eta, privatizer.eta),
        "mechanism": privatizer.mechanism.name,
        "parameters": parameters(privatizer.mechanism),
        "categories": how.categories,
        "releases": None if privatizer.releases.aligned else privatizer.releases.name,
        **of_task.facts(),
        **seeded.plain_facts(privatizer, how.plain_tokens if of_task.is_tuned else None),
    }
    labels = p.randomized_labels(task, method)
    promised["label_noise"] = labels and labels.epsilon
    kept = of_task.clean_columns if method == CLEAN else of_task.kept_columns
    release = CheckedRelease(folder, p.seed, of, promised, kept, labels)
    tables = {
        f"{copy.name}/{split}": table
        for copy in release.copies
        for split, table in copy.splits.items()
    }
    frame = pd.concat(
        [t.to_pandas().assign(part=part) for part, t in tables.items()], ignore_index=True
    )
    rows = len(release.copies) * sum(map(len, of.tagged.values()))
    return checked(release, check(frame, "every copy", _rules(release, rows)))


def _rules(release: CheckedRelease, rows: int) -> list[Rule]:
    """The columns of a release's splits, and what may stand there."""
    columns = [*release.columns, "part"]
    same = gxe.ExpectTableColumnsToMatchSet(column_set=columns)
    count = gxe.ExpectTableRowCountToEqual(value=rows)
    once = gxe.ExpectCompoundColumnsToBeUnique(column_list=["part", "example_id"])
    rules = [
        Rule("the columns are a release's", ", ".join(release.columns), same),
        Rule("as many rows as the text", str(rows), count),
        Rule("each example is there once", "no second", once),
        there("example_id", "example ids"),
    ]
    rules += [there(*required) for required in release.unit.required.items()]
    if labels := release.promised["labels"]:
        rules += in_set("label", "labels", range(len(labels)), f"0 to {len(labels) - 1}")
    return rules


if __name__ == "__main__":
    run(main)
