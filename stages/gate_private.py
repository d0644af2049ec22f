"""Check the releases of a task: `python -m stages.gate_private movies`."""

import re
from pathlib import Path
from typing import Any

from great_expectations import expectations as gxe

from rapt import params, paths
from rapt.grid import releases
from rapt.privacy import levels, seeded
from rapt.privacy.mechanisms import parameters
from rapt.privacy.release_checks import Release, Replaced, Rows
from rapt.results.gates import report, write
from rapt.utils import files
from rapt.utils.progress import bar
from stages import run
from stages.expectations import Rule, check, flagged

WORDS = "every word is one that the mechanism releases"
# What each flag of rapt.privacy.release_checks says, and what is allowed.
FLAGS = {
    "promised": ("the statement is that of params.yaml", "the same mechanism, eta and contents"),
    "law": ("law of the outcomes", "that of an independent replay (false alarms: 1e-6 a seed)"),
    "drawn": ("plain tokens are public words", "those that params.yaml draws"),
    "in_order": ("same examples", "the same ids in the same order"),
    "as_many": ("same number of words", "as many as before"),
    "released": (WORDS, "protected words from their own candidates, all others as before"),
    "unchanged": (WORDS, "the words as before"),
    "plain": ("plain words are privatized", "one for each plain token, from its own candidates"),
    "sound": ("a vector for each word", "finite multiples of the mechanism's grid, in float32"),
    "nearest": ("every word is the nearest to its vector", "the table's, found from it alone"),
    "own": ("every vector is that of its word", "the word's own, on the grid"),
}


def main(task: str) -> None:
    """Write reports/gates/private/TASK/RELEASE.json for each release; stop if one fails."""
    p = params.load()
    reports = {}
    for name, method, eta in releases(p):
        reports[name] = compare(paths.release(task, name), p, task, method, eta, p.embedding)
    write(paths.GATES / "private" / task, reports)


def compare(
    folder: Path, p: params.Params, task: str, method: str, eta: str, embedding: str
) -> dict[str, Any]:
    """Compare a release with the tagged text that it came from; returns the gate's JSON."""
    how, label = p.method(method), p.tasks[task].label
    privatizer = seeded.privatizer(embedding, how.mechanism, how.categories, eta)
    promised = {
        **{"task": task, "method": method, "embedding": embedding, "seeds": p.seeds},
        **levels.facts(eta, privatizer.eta),
        "mechanism": privatizer.mechanism.name,
        "parameters": parameters(privatizer.mechanism),
        "categories": how.categories,
        "labels": label.names if label else None,
        **seeded.plain_facts(privatizer, how.plain_tokens if label else None),
    }
    release = Release(folder, p.seed, privatizer, promised)
    findings = check(release.facts(), "statement.json", [flagged(*FLAGS["promised"], "promised")])
    findings += check(release.parts(), "release", [_contract(release)])
    for copy in release.copies:
        for where, rows in copy.checks():
            findings += check(rows, where, _rules(rows))
    shares: list[Replaced] = []
    if all(finding["passed"] for finding in findings):  # word by word needs as many words
        shares = [c.replaced() for c in bar(release.copies, "replay", len(release.copies))]
        within = [s.replay.passed for s in shares]
        rows = [{"example_id": f"seed-{k}", "within": each} for k, each in enumerate(within)]
        findings += check(rows, "release", [_share_rule(release, shares)])
        laws = [
            {"example_id": f"seed-{k}: {law.name}", "law": law.passed}
            for k, share in enumerate(shares)
            for law in share.laws
        ]
        findings += check(laws, "release", [flagged(*FLAGS["law"], "law")]) if laws else []
    facts = {key: release.statement[key] for key in ("task", "method", "eta")}
    facts["sha256"] = files.sha256(folder)
    facts["replaced"] = [share.as_json(k) for k, share in enumerate(shares)]
    return report(findings, gate="private", **facts)


def _contract(release: Release) -> Rule:
    parts = release.parts_allowed()
    allowed = ", ".join(sorted({re.split("/|: ", part)[-1] for part in parts}))
    some = gxe.ExpectColumnValuesToBeInSet(column="part", value_set=parts)
    return Rule("nothing but the release's files and columns", allowed, some)


def _rules(rows: Rows) -> list[Rule]:
    """That all flags are True which the rows have."""
    return [flagged(*FLAGS[flag], flag) for row in rows[:1] for flag in row if flag in FLAGS]


def _share_rule(release: Release, shares: list[Replaced]) -> Rule:
    if release.is_original:
        return flagged("no word is replaced", "none at eta inf", "within")
    compared, words = sum(s.replay.words for s in shares), sum(s.words for s in shares)
    allowed = f"as in an independent replay of {compared} of {words} protected words, within its "
    return flagged("replaced share", f"{allowed}interval (false alarms: 1e-6)", "within")


if __name__ == "__main__":
    run(main)
