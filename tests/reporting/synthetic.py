"""A synthetic experiment: invented figures in the shape of docs/data.md, for tests alone."""

import hashlib
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from rapt import params
from rapt.grid import (
    ATTACKED,
    CLEAN,
    LOCAL,
    PUBLIC_LABELS,
    SCORE,
    TUNED,
    UNPROTECTED_ETA,
    PlannedCell,
    is_unprotected,
)
from rapt.params import Params
from rapt.results import predictions
from rapt.results.cells import summary
from rapt.results.predictions import Predictions
from rapt.results.reader import planned
from rapt.utils import files
from tests.conftest import ROOT

SEEDS = 2
SENTENCES = ROOT / "rapt/reporting/sentences.json"
# The shares of the test texts that models are right about: of these releases none is better than
# sending nothing, and of those PCT2T's is.
NONE_PAYS = {LOCAL: 0.7, "t2t": 0.5, "pct2t": 0.6, "rapt": 0.5, CLEAN: 0.9}
ONE_PAYS = NONE_PAYS | {"pct2t": 0.9, CLEAN: 0.95}


def write(folder: Path, edit: Callable[[dict[str, Any]], Any] | None = None) -> Params:
    """Lay a whole experiment with an entry of every kind, or an edited one, in an empty folder."""
    shutil.copy(ROOT / "tests/every_section.yaml", folder / "params.yaml")
    if edit:
        yaml = YAML()
        content = yaml.load(folder / "params.yaml")
        edit(content)
        yaml.dump(content, folder / "params.yaml")
    p = params.load(folder / "params.yaml")
    for cell in planned(p):
        write_cell(cell)
    for task in p.sweep.tasks:
        files.write_json(f"reports/gates/raw/{task}.json", _raw_gate(task))
        _release(f"{task}/{CLEAN}", task, CLEAN, UNPROTECTED_ETA)
        for method, eta in product(p.sweep.methods, p.sweep.etas):
            _release(f"{task}/{method}-{eta}", task, method, eta)
    for name, study in p.studies.items():
        _release(f"studies/{name}", study.task, study.method, study.eta)
    for embedding in p.sweep.embeddings:
        files.write_json(f"reports/calibration/{embedding}.json", _calibration(embedding))
        files.write_json(f"reports/statistics/geometry/{embedding}.json", _geometry(embedding))
        for method in p.sweep.channels:
            for eta in p.sweep.etas:
                path = f"reports/statistics/channels/{embedding}/{method}-{eta}.json"
                files.write_json(path, _channel(embedding, method, eta))
    for task, backbone, tuner in product(p.sweep.train, p.sweep.backbones, p.sweep.tuners):
        for release in p.sweep.layers:
            name = f"{task}-{backbone}-{tuner}-{release}"
            found = _layers(task, backbone, tuner, *release.rsplit("-", 1))
            files.write_json(f"reports/statistics/layers/{name}.json", found)
    files.write_json("reports/examples.json", _examples(p))
    return p


def write_cell(cell: PlannedCell, **changes: Any) -> dict[str, Any]:
    """One cell's JSON, with `changes` over it."""
    kept = 1 - share(cell.factors["method"], cell.factors["eta"])
    seeds = [{"seed": k, **_seed(cell, kept, k)} for k in range(SEEDS)]
    names = seeds[0]["metrics"]
    content = {
        "schema": 2,
        "kind": cell.kind,
        "cell": cell.cell,
        "factors": cell.factors,
        "protection": protection(cell.factors["eta"]),
        "metrics": {name: _metric(cell, [s["metrics"][name] for s in seeds]) for name in names},
        "baselines": _baselines(cell),
        "upper_bounds": {"accuracy_protected": 0.95} if cell.stage == "invert-channel" else {},
        # Half of an inversion's words are protected, see `_seed`.
        "counts": {"train": 1000, "test": 500, "protected": 500, "words": 1000, "others": 500},
        "seeds": seeds,
    } | changes
    files.write_json(cell.path, content)
    return content


def metric(mean: float, reach: float = 0.0) -> dict[str, float]:
    """A metric over the seeds, whose interval reaches as far to both sides."""
    return {"mean": mean, "sd": 0.0, "n": SEEDS, "low": mean - reach, "high": mean + reach}


def recover(cell: PlannedCell, share: float, **changes: Any) -> None:
    """Let an inversion recover a share of the words."""
    found = {name: metric(share) for name in ("accuracy", "accuracy_protected")}
    write_cell(cell, metrics=found | {"empirical_privacy": metric(1 - share)}, **changes)


def write_predictions(p: Params, rights: dict[str, float]) -> None:
    """Write scores of 30 held-out and 400 test texts, by the models of every tuned cell.

    Args:
        p: of the experiment.
        rights: for each method, or `local`, the share of the test texts that it is right about.
    """
    for cell in planned(p):
        if cell.kind not in (*TUNED, LOCAL, PUBLIC_LABELS) or cell.factors["method"] not in rights:
            continue
        rng = np.random.default_rng([ord(letter) for letter in cell.factors["method"]])
        right, seeds = rights[cell.factors["method"]], 1 if cell.kind == LOCAL else SEEDS
        found = {}
        for split, count in (("train", 30), ("test", 400)):
            labels = np.arange(count) % 2
            hit = rng.permuted(np.tile(np.arange(count) < right * count, (seeds, 1)), axis=1)
            said, sure = np.where(hit, labels, 1 - labels), max(right, 1 - right)
            logits = np.log(np.where(np.arange(2) == said[..., None], sure, 1 - sure))
            names = [f"{split}-{i}" for i in range(count)]
            found[split] = Predictions(names, labels, logits)
        predictions.write(cell.predictions, found)


def break_attack(clean: PlannedCell) -> None:
    """An attack's cell on clean text, a little above its baseline and not beyond chance."""
    content = write_cell(clean)
    (baseline,) = (v for name, v in content["baselines"].items() if not name.startswith("tpr"))
    weak = metric(baseline + 0.01, 0.03)
    write_cell(clean, metrics=dict.fromkeys(content["metrics"], weak))


def _metric(cell: PlannedCell, values: list[float]) -> dict[str, float | int | None]:
    found = summary(values)
    if cell.kind in (*ATTACKED, *TUNED, SCORE, LOCAL, PUBLIC_LABELS):
        found |= {"low": max(0.0, min(values) - 0.01), "high": min(1.0, max(values) + 0.01)}
    return found


def _baselines(cell: PlannedCell) -> dict[str, float]:
    match cell.kind:
        case "invert":
            return {"majority": 0.04 if cell.factors["method"] == "pct2t" else 0.06}
        case "infer":
            return {"majority_author": 0.55}
        case "membership":
            return {"auc": 0.5, "tpr_at_1": 0.01, "tpr_at_01": 0.001}
    return {"majority": 0.51}


def protection(eta: str) -> str:
    return "unprotected" if is_unprotected(eta) else "d_X-privacy"


def share(method: str, eta: str) -> float:
    """An invented replaced share."""
    words = {"50": 0.86, "75": 0.5, "inf": 0.0}.get(eta, 0.3)
    return words if method == "t2t" else words * 0.9


def _noise(*names: object) -> float:
    """Something between -1 and 1 that depends on the names alone."""
    return hashlib.sha256(repr(names).encode()).digest()[0] / 127.5 - 1


def _seed(cell: PlannedCell, kept: float, k: int) -> dict[str, Any]:
    jitter = 0.01 * _noise(cell.cell, k)
    if cell.kind == "invert":
        protected = min(1.0, kept + jitter) if kept < 1 else 1.0
        metrics = {
            "accuracy": (1 + protected) / 2,
            "accuracy_protected": protected,
            "empirical_privacy": 1 - protected,
        }
        return {"metrics": metrics, "curves": {}}
    if cell.kind == "infer":
        accuracy = 0.56 + 0.3 * kept + jitter
        return {
            "metrics": {"accuracy_author": accuracy, "empirical_privacy_author": 1 - accuracy},
            "curves": {},
        }
    if cell.kind == "membership":
        auc = 0.51 + 0.2 * kept + jitter
        metrics = {"auc": auc, "empirical_privacy": 1 - auc, "tpr_at_1": 0.01 + 0.05 * kept}
        found = [0.5 * kept * metrics["tpr_at_1"], metrics["tpr_at_1"], 1.0]
        curves = {"false_positive_rate": [0.001, 0.01, 1.0], "true_positive_rate": found}
        return {"metrics": metrics | {"tpr_at_01": found[0]}, "curves": curves}
    if cell.kind == "recognize":
        f1 = 0.1 + 0.5 * kept + jitter
        shares = {"precision": f1, "recall": f1, "f1": f1, "empirical_privacy": 1 - f1}
        return {"metrics": shares, "curves": {}}
    if cell.kind == "score":
        metrics = {"bleu": 0.2 + 0.3 * kept + jitter, "bleu_of_seen": 0.3 + 0.3 * kept}
        metrics |= {"bleu_lower": 0.25, "chrf": 0.4, "ter": 1.1 - 0.5 * kept, "entity_recall": 0.6}
        return {"metrics": metrics, "curves": {}}
    gain = {"t2t": 0.0, "pct2t": 0.06, "rapt": 0.075}.get(cell.factors["method"], 0.05)
    gain += 0.02 if "denoiser" in cell.factors else 0.0
    accuracy = 0.52 + 0.3 * kept + gain * (1 - kept) + jitter
    curves = {"task_loss": [0.69 - 0.1 * kept * e + jitter for e in range(1, 4)]}
    if cell.factors["method"] == "rapt":
        curves["reconstruction_loss"] = [190 - 60 * kept * e + 100 * jitter for e in range(1, 4)]
        curves["reconstruction_accuracy"] = [0.3 * kept * e for e in range(1, 4)]
    metrics = {"accuracy": accuracy}
    if cell.kind == LOCAL:
        metrics |= {f"accuracy_with_{n}": accuracy - 1 / n**0.5 for n in (25, 100, 400)}
    return {"metrics": metrics, "curves": curves}


def _release(name: str, task: str, method: str, eta: str) -> None:
    replaced = share(method, eta)
    gate = _gate("private", task, "as many words as before") | {
        "method": method,
        "eta": eta,
        "sha256": "c" * 64,
        "replaced": [
            {
                "seed": k,
                "words": 12000,
                "replaced": int(replaced * 12000),
                "share": replaced,
                "ties": 0,
            }
            for k in range(SEEDS)
        ],
    }
    files.write_json(f"reports/gates/private/{name}.json", gate)
    files.write_json(
        f"data/private/{name}/statement.json", {"task": task, "protection": protection(eta)}
    )


def _gate(kind: str, task: str, expectation: str) -> dict[str, Any]:
    checked = {"split": "train", "passed": True, "checked": 1000, "failed": 0, "examples": []}
    expectations = [{"expectation": expectation, "allowed": "1 to 10000 characters", **checked}]
    return {"gate": kind, "task": task, "passed": True, "expectations": expectations}


def _raw_gate(task: str) -> dict[str, Any]:
    digests = {"train": hashlib.sha256(task.encode()).hexdigest(), "test": "b" * 64}
    return _gate("raw", task, "texts are not empty") | {
        "read": 6444,
        "dropped": {"empty text": 0, "excluded": 722, "not drawn": 4322},
        "rows": {"train": 1000, "test": 400},
        "sha256": digests,
    }


def _calibration(embedding: str) -> dict[str, Any]:
    def point(eta: str, replaced: float) -> dict[str, Any]:
        low, high = max(0.0, replaced - 0.04), min(1.0, replaced + 0.04)
        interval = {"replaced": replaced, "replaced_low": low, "replaced_high": high}
        return {"eta": eta, "n_w": 1000 * (1 - replaced), **interval}

    def target(replaced: float) -> dict[str, Any]:
        eta = 40 + 70 * (1 - replaced)
        high = eta + 1.5 if replaced > 0.2 else None
        return {"replaced": replaced, "eta": eta, "eta_low": eta - 1.5, "eta_high": high}

    shares = {"25": 0.99, "50": 0.86, "75": 0.5, "100": 0.2, "125": 0.1, "150": 0.05, "200": 0.02}
    curves = {
        "t2t": [point(eta, s) for eta, s in shares.items()],
        "pct2t": [point(eta, 0.9 * s) for eta, s in shares.items()],
    }
    targets = {name: [target(share) for share in (0.9, 0.5, 0.1)] for name in curves}
    sizes = {"embedding": embedding, "words": 300, "draws": 20}
    return sizes | {"curves": curves, "targets": targets}


def _channel(embedding: str, method: str, eta: str) -> dict[str, Any]:
    def statistics(words: int, replaced: float) -> dict[str, Any]:
        spread = [min(1.0, (1 - replaced) * q / 4) for q in (0, 1, 3, 4, 5, 6, 7)]
        return {
            "words": words,
            "replaced": replaced,
            "replaced_low": max(0.0, replaced - 0.03),
            "replaced_high": min(1.0, replaced + 0.03),
            "n_w": [1000 * kept for kept in spread],
            "s_w": [1 + 40 * (1 - kept) for kept in reversed(spread)],
        }

    replaced = share(method, eta)
    return {
        "embedding": embedding,
        "method": method,
        "eta": eta,
        "draws": 80,
        "sampled": statistics(300, replaced),
        "frequent": statistics(700, 0.8 * replaced),
    }


def _geometry(embedding: str) -> dict[str, Any]:
    names = ("every word", "noun", "verb", "pronoun")
    return {
        "embedding": embedding,
        "words": 23695,
        "dimension": 384,
        "sampled": 500,
        "neighbours": [{"k": k, "mean": 0.9 + k / 400} for k in (1, 10, 100)],
        "categories": [
            {"category": name, "words": 9000 // n, "mean": 1.6 - n / 20, "variance": n / 50}
            for n, name in enumerate(names, start=1)
        ],
    }


def _layers(task: str, backbone: str, tuner: str, method: str, eta: str) -> dict[str, Any]:
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    moved = share(method, eta)
    points = [[_noise("point", n, axis) for axis in (0, 1)] for n in range(20)]
    return {
        "factors": factors,
        "texts": 200,
        "layers": [
            {
                "layer": layer,
                "distance": summary([moved * (1 + layer + 0.1 * k) for k in range(SEEDS)]),
                "spread": summary([2.0 + layer + 0.1 * k for k in range(SEEDS)]),
            }
            for layer in range(7)
        ],
        "points": [{"clean": points, "own": [[x + moved, y] for x, y in points]} for _ in range(7)],
        "labels": [n % 2 for n in range(20)],
    }


def _examples(p: Params) -> dict[str, Any]:
    shown = []
    for sentence in files.read_json(SENTENCES):
        words = sentence["text"].replace(",", " ,").replace(".", " .").split()
        releases = []
        for method in p.sweep.methods:
            for eta in p.sweep.etas:
                step = {"50": 2, "75": 3}.get(eta, 10**6) + (method != "t2t")
                changed = [i % step == step - 1 and w.isalpha() for i, w in enumerate(words)]
                new = [
                    f"synthetic{i}" if c else w
                    for i, (w, c) in enumerate(zip(words, changed, strict=True))
                ]
                releases.append({"method": method, "eta": eta, "words": new, "changed": changed})
        shown.append(sentence | {"releases": releases})
    return {"sentences": shown}


def recognize_entities(content: dict[str, Any]) -> None:
    """Have the entities of every task recognized."""
    content["sweep"].update(recognize=["movies", "tweets"])


def add_attribute(content: dict[str, Any]) -> None:
    """Give the tuned task a private attribute, as `rapt init --attribute` does."""
    attribute = {"type": "values", "column": "id", "values": ["1", "2"]}
    content["tasks"]["movies"]["attributes"] = {"author": attribute}
    content["sweep"]["infer"].append("movies")


def denoise_t2t(content: dict[str, Any]) -> None:
    """Have what is released by t2t read by a denoiser, too."""
    content["sweep"].update(channels=["t2t"], denoisers=["posterior-mean"])


def infer_membership(content: dict[str, Any]) -> None:
    """Have membership inferred from the adapters of two tuners, and t2t denoised beside them."""
    denoise_t2t(content)
    content["sweep"].update(tuners=["lora", "prefix"], memberships=["loss"])


def sweep_widely(content: dict[str, Any]) -> None:
    """More than 300 cells: every kind of attack, three tuners, nine η."""
    infer_membership(content)
    etas = [25, 47, 60, 75, 90, 110, 130, 150, 170]
    content["sweep"].update(
        tuners=["lora", "prefix", "p-tuning"],
        recognize=["movies", "tweets"],
        etas=etas,
        tune_at=etas,
    )


def tune_at_one(content: dict[str, Any]) -> None:
    """A tuner at one η alone, beside a cheap one at every η."""
    content["sweep"].update(tuners=["lora"], tune_at=[75], probes=["prompt"])


def drop_a_third(params: Params) -> None:
    """Every third cell, gate and statistic of a whole experiment has not run."""
    for folder in ("cells", "gates", "statistics"):
        for path in sorted(Path("reports", folder).rglob("*.json"))[::3]:
            path.unlink()


def compare_layers(content: dict[str, Any]) -> None:
    """Have the hidden states of two methods compared with those of clean text."""
    content["sweep"].update(layers=["t2t-75", "rapt-75"])
