"""Check the releases of a task: `python -m stages.gate_private movies`."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from great_expectations import expectations as gxe

from rapt import params, paths
from rapt.grid import CLEAN, releases, synthetic
from rapt.measures.gate import CheckedRelease, Originals, checked, originals
from rapt.privacy import levels, seeded
from rapt.privacy.mechanisms import parameters
from rapt.privacy.released import Released, Words
from rapt.results.gates import report, write
from rapt.utils import files
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
    for name, synthesizer, epsilon in synthetic(p) if task in p.sweep.train else ():
        facts = {"task": task, "method": synthesizer, "eta": epsilon}
        reports[name] = of_synthetic(paths.release(task, name), p, facts)
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
    labels = release.promised["labels"]
    rules = _rules(release.columns, release.unit, labels, "as many rows as the text", rows)
    return checked(release, check(frame, "every copy", rules))


def of_synthetic(folder: Path, p: params.Params, facts: dict[str, str]) -> dict[str, Any]:
    """Check columns, labels and rows of a synthetic release; returns the gate's JSON."""
    made = files.read_json(paths.statement(folder))["synthesizer"]["texts"]
    tests = len(files.read_parquet(paths.tagged(facts["task"]) / "test.parquet", ["example_id"]))
    frames = [
        files.read_parquet(path).to_pandas().assign(part=str(path.relative_to(folder)))
        for path in sorted(folder.glob("seed-*/*.parquet"))
    ]
    rows = sum(map(sum, made)) + p.seeds * tests
    columns = ["example_id", "segment", "words", "label"]
    labels = p.tasks[facts["task"]].names
    rules = _rules(columns, Words, labels, "as many rows as were made and tested", rows)
    findings = check(pd.concat(frames, ignore_index=True), "every copy", rules)
    return report(findings, gate="private", sha256=files.sha256(folder), replaced=[], **facts)


def _rules(
    columns: Sequence[str],
    unit: type[Released],
    labels: Sequence[str] | None,
    as_many: str,
    rows: int,
) -> list[Rule]:
    """The columns of a release's splits, and what may stand there."""
    same = gxe.ExpectTableColumnsToMatchSet(column_set=[*columns, "part"])
    count = gxe.ExpectTableRowCountToEqual(value=rows)
    once = gxe.ExpectCompoundColumnsToBeUnique(column_list=["part", "example_id"])
    rules = [
        Rule("the columns are a release's", ", ".join(columns), same),
        Rule(as_many, str(rows), count),
        Rule("each example is there once", "no second", once),
        *there("example_id", "example ids"),
    ]
    rules += [rule for required in unit.required.items() for rule in there(*required)]
    if labels:
        rules += in_set("label", "labels", range(len(labels)), f"0 to {len(labels) - 1}")
    return rules


if __name__ == "__main__":
    run(main)
