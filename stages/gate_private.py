"""Check a release: `python -m stages.gate_private data/private/movies/t2t-75 OUT.json`."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations import expectations as gxe
from numpy.typing import NDArray

from rapt import files, params
from rapt.privacy import experiment
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import parameters
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.statement import UNPROTECTED
from rapt.privacy.statistics import ReplayTest, replay_test
from rapt.progress import bar
from stages import run
from stages.expectations import Rule, check, close, flagged

SPLITS = ("train", "test")
CHUNK = 1 << 14  # vectors that are looked at together
# Sequence of plain tokens → the group of each, and each.
Plain = dict[int, tuple[list[int], list[str]]]


def main(release: Path, out: Path) -> None:
    """Compare RELEASE with the tagged text that it came from; write OUT, stop if it fails."""
    statement = files.read_json(release / "statement.json")
    task = statement["task"]
    tagged = {s: files.read_parquet(f"data/tagged/{task}/{s}.parquet") for s in SPLITS}
    copies = [
        {s: files.read_parquet(release / f"seed-{k}/{s}.parquet") for s in SPLITS}
        for k in range(statement["seeds"])
    ]
    privatizer = experiment.privatizer(
        statement["embedding"],
        {"type": statement["mechanism"], **statement["parameters"]},
        statement["categories"],
        statement["eta"],
    )
    rules, vectors = _rules(statement), experiment.releases_vectors(privatizer)
    findings = check(_contents(release), "release", [_contract(statement, vectors)])
    for k, copy in enumerate(copies):
        plain: Plain = {}
        if statement["plain_tokens"]:
            folder, seed = release / f"seed-{k}", params.load().seed
            plain, frame = _plain(privatizer, statement, folder, k, seed)
            findings += check(frame, f"seed-{k}", [DRAWN])
        for split in SPLITS:
            frame = _matches(privatizer, plain, tagged[split], copy[split])
            findings += check(frame, f"seed-{k}/{split}", rules)
            if vectors:
                frame = _vectors(privatizer, tagged[split], copy[split])
                findings += check(frame, f"seed-{k}/{split}", _vector_rules(privatizer))
    tests: list[ReplayTest] = []
    if all(finding["passed"] for finding in findings):  # word by word needs as many words
        seed = params.load().seed
        tests = [
            _share_test(privatizer, tagged, copy, task, k, seed)
            for k, copy in bar(enumerate(copies), "replay", len(copies))
        ]
        findings += check(_shares(tests), "release", [_share_rule(statement)])
    close(
        str(out),
        findings,
        gate="private",
        task=task,
        method=statement["method"],
        eta=statement["eta"],
        sha256=files.sha256(release),
        replaced=[_replaced(k, test) for k, test in enumerate(tests)],
    )


# What the release is made of


def _contents(release: Path) -> pd.DataFrame:
    """Every file of the release, and every column and metadata key in it."""
    parts = []
    for path in sorted(p for p in release.rglob("*") if p.is_file()):
        name = path.relative_to(release).as_posix()
        parts.append(name)
        if path.suffix == ".parquet":
            schema = files.read_parquet(path).schema
            parts += [f"{name}: {part}" for part in [*schema.names, *(schema.metadata or {})]]
    return pd.DataFrame({"example_id": parts, "part": parts})


def _contract(statement: dict[str, Any], vectors: bool) -> Rule:
    """docs/data.md, “The release”: nothing else may be in it."""
    columns = ["example_id", "segment", "words", *(["vectors"] if vectors else [])]
    columns += ["label"] if statement["labels"] else []
    columns += ["sequence", "plain"] if statement["plain_tokens"] else []
    parts = {f"{split}.parquet": columns for split in SPLITS}
    if statement["plain_tokens"]:
        parts["plain.parquet"] = ["sequence", "word", "target"]
    allowed = ["statement.json", "statement.txt"]
    for k in range(statement["seeds"]):
        for name, within in parts.items():
            allowed += [f"seed-{k}/{name}", *(f"seed-{k}/{name}: {column}" for column in within)]
    return Rule(
        "nothing but the release's files and columns",
        ", ".join(sorted({"statement.json", "statement.txt", *parts, *columns})),
        gxe.ExpectColumnValuesToBeInSet(column="part", value_set=allowed),
    )


# Whether it belongs to the text


DRAWN = flagged("plain tokens are public words", "those that params.yaml draws", "drawn")


def _rules(statement: dict[str, Any]) -> list[Rule]:
    allowed = "protected words from their own candidates, all others as before"
    if statement["protection"] == UNPROTECTED:
        allowed = "the words as before"
    rules = [
        flagged("same examples", "the same ids in the same order", "in_order"),
        flagged("same number of words", "as many as before", "as_many"),
        flagged("every word is one that the mechanism releases", allowed, "released"),
    ]
    if statement["plain_tokens"]:
        allowed = "one for each plain token of the text's sequence, from its own candidates"
        rules.append(flagged("plain words are privatized", allowed, "plain"))
    return rules


def _plain(
    privatizer: Privatizer, statement: dict[str, Any], folder: Path, k: int, seed: int
) -> tuple[Plain, pd.DataFrame]:
    """The plain tokens of a seed, drawn again, and whether a release names these and no others."""
    drawn = experiment.PlainTokens(
        privatizer,
        k,
        seed=seed,
        **statement["plain_tokens"],
        vocabulary=statement["vocabulary"],
    )
    groups = [privatizer.groups_of_rows(drawn.vocabulary[row]) for row in drawn.targets]
    plain = dict(enumerate(zip(groups, drawn.words, strict=True)))
    named = files.read_parquet(folder / "plain.parquet").to_pylist()
    expected = [
        {"sequence": sequence, "word": word, "target": target}
        for sequence, words in enumerate(drawn.words)
        for word, target in zip(words, drawn.targets[sequence].tolist(), strict=True)
    ]
    return plain, pd.DataFrame({"example_id": ["plain.parquet"], "drawn": [named == expected]})


def _matches(
    privatizer: Privatizer, plain: Plain, tagged: pa.Table, copy: pa.Table
) -> pd.DataFrame:
    """A row for each example before or after; a missing one is empty, and its flags are False."""
    before = _rows(tagged, "example_id", "words", "pos")
    after = _rows(copy, "example_id", "words", *(("sequence", "plain") if plain else ()))
    rows = []
    for one, other in zip_longest(before, after):
        example, words, pos = one or (None, [], [])
        example_after, released, *prefix = other or (None, [])
        groups = privatizer.groups_of_text(pos)
        as_many = len(words) == len(released)
        rows.append(
            {
                "example_id": example or example_after,
                "in_order": example == example_after,
                "as_many": as_many,
                # Words that cannot be compared one by one are reported as too many or too few.
                "released": not as_many or _possible(privatizer, groups, words, released),
                "plain": _plain_possible(privatizer, plain, *prefix),
            }
        )
    return pd.DataFrame(rows)


def _rows(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def _plain_possible(
    privatizer: Privatizer,
    plain: Plain,
    sequence: int | None = None,
    copies: Sequence[str] = (),
) -> bool:
    """Whether a text's privatized plain tokens can come from the sequence that it names."""
    if sequence not in plain:
        return False
    groups, words = plain[sequence]
    return len(copies) == len(words) and _possible(privatizer, groups, words, copies)


def _possible(
    privatizer: Privatizer, groups: list[int], words: list[str], released: Sequence[str]
) -> bool:
    """Whether the mechanism can release these words: no unknown word may have passed through."""
    if np.isinf(privatizer.eta):
        return words == list(released)
    return all(
        after in privatizer.words_of(group) if group != VERBATIM else after == before
        for group, before, after in zip(groups, words, released, strict=True)
    )


# Whether its vectors are the mechanism's, and its words theirs


def _vector_rules(privatizer: Privatizer) -> list[Rule]:
    grid, dimension = _grid(privatizer), privatizer.table.dimension
    allowed = f"{dimension} finite multiples of {grid} each, in float32"
    belongs = "every word is the nearest to its vector", "the table's nearest, found from it alone"
    if np.isinf(privatizer.eta):
        belongs = "every vector is that of its word", "the word's own, on the grid"
    return [flagged("a vector for each word", allowed, "sound"), flagged(*belongs, "own")]


def _grid(privatizer: Privatizer) -> float:
    return float(parameters(privatizer.mechanism)["grid"])


def _vectors(privatizer: Privatizer, tagged: pa.Table, copy: pa.Table) -> pd.DataFrame:
    """A row for each released text: whether its vectors are sound, and belong to its words."""
    ids, words = copy["example_id"].to_pylist(), copy["words"].to_pylist()
    kind = pa.list_(pa.list_(pa.float32(), privatizer.table.dimension))
    if "vectors" not in copy.schema.names or copy.schema.field("vectors").type != kind:
        return pd.DataFrame({"example_id": ids, "sound": False, "own": False})
    lengths = pc.list_value_length(copy["vectors"]).to_pylist()
    every = files.vectors_of_column(copy["vectors"])
    sound = _sound(every, _grid(privatizer))
    originals = np.isinf(privatizer.eta)
    expected = experiment.vectors(privatizer, tagged, seed=0) if originals else None
    nearest = [] if originals else _nearest(privatizer, every)
    rows = []
    for example, text, start, end in zip(ids, words, *_spans(lengths), strict=True):
        as_many = end - start == len(text)
        own = (
            nearest[start:end] == text
            if expected is None
            else np.array_equal(every[start:end], next(expected, []))
        )
        good = as_many and bool(sound[start:end].all())
        rows.append({"example_id": example, "sound": good, "own": own})
    return pd.DataFrame(rows)


def _spans(lengths: list[int]) -> tuple[list[int], list[int]]:
    ends = np.cumsum([0, *lengths]).tolist()
    return ends[:-1], ends[1:]


def _sound(vectors: NDArray[np.float32], grid: float) -> NDArray[np.bool_]:
    """Whether all numbers of a vector are finite and on the grid (n,)."""
    sound = np.empty(len(vectors), np.bool_)
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        steps = vectors[part].astype(np.float64) / grid
        sound[part] = (np.isfinite(steps) & (steps == np.round(steps))).all(axis=1)
    return sound


def _nearest(privatizer: Privatizer, vectors: NDArray[np.float32]) -> list[str]:
    """The word nearest to each vector, those that are not finite taken for the origin."""
    nearest = experiment.representer(privatizer).nearest
    parts = (vectors[start : start + CHUNK] for start in range(0, len(vectors), CHUNK))
    return [word for part in parts for word in nearest(np.nan_to_num(part, posinf=0, neginf=0))]


# Whether as many words were replaced as the mechanism replaces


def _share_test(
    privatizer: Privatizer,
    tagged: dict[str, pa.Table],
    copy: dict[str, pa.Table],
    task: str,
    k: int,
    seed: int,
) -> ReplayTest:
    """Replay the mechanism on the same words with other noise, and compare."""
    released: list[bool] = []
    replayed: list[bool] = []
    for split in SPLITS:
        replay = experiment.texts(privatizer, tagged[split], k, task, "gate", seed=seed)
        released += _protected(privatizer, tagged[split], copy[split]["words"].to_pylist())
        replayed += _protected(privatizer, tagged[split], list(replay))
    return replay_test(released, replayed)


def _protected(privatizer: Privatizer, tagged: pa.Table, after: list[list[str]]) -> list[bool]:
    """Whether each protected word of a split was replaced."""
    replaced: list[bool] = []
    rows = zip(tagged["words"].to_pylist(), tagged["pos"].to_pylist(), after, strict=True)
    for words, pos, released in rows:
        groups = privatizer.groups_of_text(pos)
        changed = privatizer.replaced(words, released)
        replaced += [c for c, group in zip(changed, groups, strict=True) if group != VERBATIM]
    return replaced


def _shares(tests: list[ReplayTest]) -> pd.DataFrame:
    names = [f"seed-{k}" for k in range(len(tests))]
    return pd.DataFrame({"example_id": names, "within": [test.passed for test in tests]})


def _share_rule(statement: dict[str, Any]) -> Rule:
    if statement["protection"] == UNPROTECTED:
        return flagged("no word is replaced", "none at eta inf", "within")
    allowed = "as many as in an independent replay, within its interval (false alarms: 1e-6)"
    return flagged("replaced share", allowed, "within")


def _replaced(k: int, test: ReplayTest) -> dict[str, float]:
    """What docs/data.md says of the field `replaced`."""
    words = max(1, test.words)
    return {
        "seed": k,
        "words": test.words,
        "replaced": test.replaced,
        "share": test.replaced / words,
        "expected": test.expected / words,
        "low": test.low / words,
        "high": test.high / words,
    }


if __name__ == "__main__":
    run(main)
