"""Real faults, planted one by one, and the tests that have to notice each.

`python -m tests.mutations` plants each fault in a copy of the project and runs the tests of its
module. `python -m tests.mutations rapt/privacy stages` plants those in these folders alone. It
prints a line for each fault, and fails if one goes unnoticed. Pytest doesn't collect this file: all
faults together take a quarter of an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT
from tests.test_mirror import ELSEWHERE, mirrored

SECONDS = 300  # tests that run longer hang, which is noticed, too
PASSED, FAILED = 0, 1  # exit codes of pytest; any other is an error of this table


class Fault(NamedTuple):
    """A fault in one line of the product.

    Attributes:
        file: where it is planted.
        right: what stands there, once in the file.
        wrong: what stands there instead.
        elsewhere: tests that should notice it, if they aren't those of the module.
    """

    file: str
    right: str
    wrong: str
    elsewhere: str = ""

    @property
    def tests(self) -> list[str]:
        """What should notice it, as pytest's arguments."""
        return (self.elsewhere or ELSEWHERE.get(self.file) or mirrored(self.file)).split()


FAULTS = (
    # What decides privacy: noise, streams, groups, budgets.
    Fault(
        "rapt/privacy/mechanisms/noise.py",
        "radius = rng.standard_gamma(dimension, size=(n, 1))",
        "radius = rng.standard_gamma(dimension, size=(n, 1)) / 2",
    ),
    Fault(
        "rapt/privacy/mechanisms/noise.py",
        "sums: NDArray[np.float64] = draws / eta",
        "sums: NDArray[np.float64] = draws * eta",
    ),
    Fault(
        "rapt/privacy/mechanisms/noise.py",
        "(near + far) < near, first, second)",
        "(near + far) < near, second, first)",
    ),
    Fault("rapt/privacy/mechanisms/exponential.py", "goal = uniform * mass[-1]", "goal = uniform"),
    Fault(
        "rapt/privacy/streams.py",
        '"\\0".join(map(str, (seed, *names)))',
        '"".join(map(str, (seed, *names)))',
    ),
    Fault(
        "rapt/privacy/streams.py",
        "key=int.from_bytes(os.urandom(32)",
        "key=int.from_bytes(bytes(32)",
    ),
    Fault(
        "rapt/privacy/seeded.py",
        "stream=partial(stream, seed, *names, example)",
        "stream=partial(stream, seed, *names)",
    ),
    Fault(
        "rapt/privacy/seeded.py",
        'partial(self._stream, *names, example, "plain")',
        'partial(self._stream, *names, "plain")',
    ),
    Fault(
        "rapt/privacy/seeded.py",
        "frequent = np.argsort(-privatizer.table.frequency",
        "frequent = np.argsort(privatizer.table.frequency",
    ),
    Fault(
        "rapt/privacy/fates.py",
        "self.most = max(self.most, noisy)",
        "self.most = noisy",
    ),
    Fault("rapt/privacy/categories.py", '"verb": ("VERB", "AUX"),', '"verb": ("VERB",),'),
    Fault(
        "rapt/privacy/privatizer.py",
        "return self._unknown if group == VERBATIM and not self.table.knows(word) else group",
        "return group",
    ),
    Fault("rapt/privacy/posterior.py", "known.min() if len(known)", "known.max() if len(known)"),
    Fault("rapt/privacy/budget.py", "text = words * bound", "text = 1 * bound"),
    # What measures.
    Fault(
        "rapt/measures/level_search.py",
        "return Share(1 - hidden.value, 1 - hidden.high, 1 - hidden.low)",
        "return Share(1 - hidden.value, 1 - hidden.low, 1 - hidden.high)",
    ),
    Fault("rapt/measures/likelihood.py", "- between / 4, 0)", "- between / 2, 0)"),
    Fault("rapt/measures/strength.py", "if found.value >= ENOUGH:", "if found.value >= 0:"),
    # A release by `rapt privatize`, and its ledger.
    Fault(
        "rapt/release/parts.py",
        "changed = [key for key in identity if begun.get(key) != identity[key]]",
        "changed = list[str]()",
        "tests/release/test_job.py",
    ),
    Fault(
        "rapt/release/parts.py", "PRIVATE = 0o600", "PRIVATE = 0o644", "tests/release/test_job.py"
    ),
    Fault(
        "rapt/release/ledger.py",
        "hashlib.blake2b(text.encode(), key=key, digest_size=16)",
        "hashlib.blake2b(text.encode(), digest_size=16)",
    ),
    Fault("rapt/release/ledger.py", "if covered >= half:", "if covered > half:"),
    Fault(
        "rapt/release/text.py",
        "numbers.setdefault(word.original.casefold(),",
        "numbers.setdefault(word.original,",
    ),
    # Data, and the words of texts.
    Fault("rapt/data/prepare.py", '" ".join(text.casefold().split())', '" ".join(text.split())'),
    Fault(
        "rapt/data/prepare.py",
        "shared = is_train & keys.isin(set(keys[~is_train]))",
        "shared = ~is_train & keys.isin(set(keys[is_train]))",
    ),
    Fault(
        "rapt/data/labels.py",
        'return repr(value) if number(value) is not None else "a value not shown"',
        "return repr(value)",
        "tests/data",
    ),
    Fault(
        "rapt/data/prepare.py",
        "enough = np.searchsorted(texts[order].cumsum(), test) + 1",
        "enough = np.searchsorted(texts[order].cumsum(), test)",
        "tests/data",
    ),
    Fault(
        "rapt/data/attributes.py",
        "key=lambda value: (-counts[value], value)",
        "key=lambda value: (counts[value], value)",
    ),
    Fault(
        "rapt/text/tagging.py",
        "[text[end : end + 1].isspace() for end in ends]",
        "[text[end + 1 : end + 2].isspace() for end in ends]",
    ),
    Fault("rapt/text/characters.py", 'shown = _IGNORABLE.sub("", text)', "shown = text"),
    Fault(
        "rapt/text/mentions.py",
        "for entity in sorted(told, key=len, reverse=True):",
        "for entity in sorted(told, key=len):",
    ),
    Fault("rapt/text/language.py", "likely[expected] < UNLIKELY", "likely[expected] > UNLIKELY"),
    Fault(
        "rapt/text/embeddings.py",
        'unicodedata.normalize("NFD", word.lower())',
        'unicodedata.normalize("NFD", word)',
    ),
    Fault(
        "rapt/table_cache.py",
        'f"{digest} {_tagger_sha256(tagger)} {__version__}',
        'f"{digest} {__version__}',
    ),
    # Attacks, and how sure their success is.
    Fault("rapt/attacks/membership.py", "np.log(sd / sd_with)", "np.log(sd_with / sd)"),
    Fault(
        "rapt/attacks/membership_scores.py",
        "return (sides[0] + sides[1]) / (2 * len(than))",
        "return sides[1] / len(than)",
    ),
    Fault(
        "rapt/attacks/membership_scores.py",
        '"empirical_privacy": (1 - high, 1 - low)',
        '"empirical_privacy": (low, high)',
    ),
    Fault(
        "rapt/attacks/scores.py",
        '"f1": (2 * right, guessed + named)',
        '"f1": (right, guessed + named)',
    ),
    Fault("rapt/attacks/bigrams.py", "emission * now))", "now))"),
    Fault(
        "rapt/attacks/attributes.py", "range(len(text) - length + 1)", "range(len(text) - length)"
    ),
    Fault(
        "rapt/attacks/inversion.py",
        "mean = np.mean([vectors[places]",
        "mean = np.max([vectors[places]",
    ),
    Fault(
        "rapt/attacks/bayesian.py",
        'counts = public.table.counts(every) if prior == "release" else None',
        "counts = None",
    ),
    Fault(
        "rapt/analysis/intervals.py",
        "t.ppf((1 + confidence) / 2, freedom)",
        "t.ppf(confidence, freedom)",
    ),
    Fault(
        "rapt/analysis/intervals.py",
        "max(0.0, share - reach), min(1.0, share + reach)",
        "share - reach, share + reach",
    ),
    Fault("rapt/analysis/effects.py", "np.arange(len(given), 0, -1)", "np.full(len(given), 1)"),
    Fault(
        "rapt/analysis/effects.py",
        "(len(over) / settings) ** 2 * each",
        "(len(over) / settings) * each",
    ),
    Fault("rapt/analysis/written.py", "re.escape(entity.casefold())", "re.escape(entity)"),
    Fault(
        "rapt/analysis/hidden_states.py",
        "own = [states[:, -batch.tokens.shape[1] :].float() for states in seen]",
        "own = [states[:, : batch.tokens.shape[1]].float() for states in seen]",
    ),
    Fault(
        "rapt/baselines/combined.py",
        'own = own[[places[example] for example in provider["train"].examples]]',
        'own = own[: len(provider["train"].examples)]',
    ),
    Fault(
        "rapt/baselines/local.py",
        "full[:, model.classes_] = scores",
        "full[:, : scores.shape[1]] = scores",
    ),
    Fault(
        "rapt/audit/exact.py",
        "return softmax(-eta / 2 * _distances(space), axis=1)",
        "return softmax(-eta * _distances(space), axis=1)",
    ),
    # Tuning and serving.
    Fault(
        "rapt/tuning/gradients.py",
        "factor = torch.where(other > 0, self._cap * own / other, 1.0).clamp(max=1.0)",
        "factor = torch.where(other > 0, self._cap * own / other, 1.0)",
    ),
    Fault("rapt/tuning/checkpoints.py", '        "train": run.train.model_dump(),\n', ""),
    Fault(
        "rapt/tuning/private.py",
        "self.replaced = how.policy is not None",
        "self.replaced = False",
        "tests/tuning/test_redaction.py",
    ),
    Fault(
        "rapt/tuning/config.py",
        "return [int((i + 1) * self.held_out) > int(i * self.held_out) for i in range(rows)]",
        "return [i < int(rows * self.held_out) for i in range(rows)]",
        "tests/tuning",
    ),
    Fault(
        "rapt/tuning/config.py",
        "return sorted(shuffled[k :: self.shards])",
        "return sorted(shuffled[k:])",
    ),
    Fault("rapt/serving/private_prediction.py", "noise=(2 / cost) ** 0.5", "noise=cost**-0.5"),
    Fault("rapt/serving/private_prediction.py", "-teachers * expm1(-loss)", "-expm1(-loss)"),
    Fault("rapt/serving/budget.py", "fcntl.flock(file, fcntl.LOCK_EX)", "pass"),
    Fault(
        "rapt/tuning/trainer.py",
        "self.steps = loop.epochs * -(-len(split) // loop.batch_size)",
        "self.steps = loop.epochs * (len(split) // loop.batch_size)",
    ),
    Fault(
        "rapt/tuning/denoising.py",
        "embedded[row] = weights[tokens].float().mean(0)",
        "embedded[row] = weights[tokens].float().sum(0)",
    ),
    Fault(
        "rapt/kinds/base.py",
        "for other in reversed(sizes)]",
        "for other in sizes]",
        "tests/kinds tests/serving",
    ),
    Fault(
        "rapt/serving/prediction_privatizer.py",
        "if table.sha256 != statement.table_sha256:",
        "if False:",
        "tests/serving",
    ),
    # Cells, their names and places; what reads them.
    Fault("rapt/grid.py", 'rf"(.+?)-(', 'rf"(.+)-('),
    Fault(
        "rapt/grid.py",
        'return -given.share if given.measure == "replaced"',
        'return given.share if given.measure == "replaced"',
    ),
    Fault(
        "rapt/paths.py",
        'return Path("reports/predictions", kind, f"{name}.parquet")',
        'return Path("reports/predictions", f"{name}.parquet")',
    ),
    Fault("rapt/synthesis/base.py", "np.maximum(counts + noise, 0)", "np.maximum(counts, 0)"),
    Fault(
        "rapt/synthesis/base.py",
        "draw._replace(epsilon=draw.epsilon - cost)",
        "draw",
    ),
    Fault("rapt/synthesis/aug_pe.py", "minlength=len(synthetic)) / sqrt(k)", "minlength=9)"),
    Fault("rapt/synthesis/aug_pe.py", "return sqrt(rounds) / gaussian", "return 1 / gaussian"),
    Fault("rapt/synthesis/aug_pe.py", "counted + sigma * rng", "counted + 0.5 * sigma * rng"),
    Fault("rapt/synthesis/membership.py", "self.rows[~self.is_in]", "self.rows[self.is_in]"),
    Fault("rapt/synthesis/membership.py", "/ (len(found) * len(sizes))", "* len(sizes)"),
    Fault(
        "rapt/synthesis/generator.py",
        'model_copy(update={"private": how})',
        "model_copy()",
    ),
    Fault(
        "rapt/param_checks.py",
        "for name in {CLEAN, LOCAL} & names.keys():",
        "for name in {LOCAL} & names.keys():",
        "tests/test_param_errors.py",
    ),
    Fault(
        "rapt/results/predictions.py",
        '"seed": np.repeat(np.arange(seeds), texts),\n            "example_id"',
        '"seed": np.tile(np.arange(seeds), texts),\n            "example_id"',
    ),
    Fault(
        "rapt/results/table.py",
        '"seed": np.repeat(np.arange(seeds), texts)',
        '"seed": np.tile(np.arange(seeds), texts)',
    ),
    Fault(
        "rapt/results/cells.py",
        "if all(m in seed.metrics for seed in seeds)]:",
        "if any(m in seed.metrics for seed in seeds)]:",
    ),
    Fault(
        "rapt/results/gates.py", 'passed = all(finding["passed"]', 'passed = any(finding["passed"]'
    ),
    Fault(
        "rapt/results/reader.py",
        'varied = ("method", "eta")',
        'varied = ("eta",)',
        "tests/reporting/test_tables.py",
    ),
    Fault(
        "rapt/utils/files.py", 'f"{name}\\0{sha256(path / name)}\\n"', 'f"{sha256(path / name)}\\n"'
    ),
    Fault("rapt/utils/files.py", "indent=1, sort_keys=True", "indent=1, sort_keys=False"),
    Fault("rapt/utils/batches.py", "if total >= least:", "if total > least:"),
    Fault("rapt/utils/process.py", "return max(1, min(count, int(quota)))", "return max(1, count)"),
    # The report.
    Fault(
        "rapt/reporting/claims.py", "elif effect >= MARGIN and supported <=", "elif supported <="
    ),
    Fault(
        "rapt/reporting/comparisons.py",
        'verdict = "higher" if mean > 0 else "lower"',
        'verdict = "higher" if mean < 0 else "lower"',
    ),
    Fault(
        "rapt/reporting/comparisons.py",
        "(1 + int(above[:, i].sum()), count - int(above[i].sum()))",
        "(1 + int(above[i].sum()), count - int(above[:, i].sum()))",
        "tests/reporting/test_leaderboard.py",
    ),
    Fault(
        "rapt/reporting/tables.py",
        'return "broken" if accuracy.low <= baseline else None',
        'return "broken" if accuracy.mean <= baseline else None',
        "tests/reporting/test_page.py",
    ),
    Fault(
        "rapt/reporting/tables.py",
        "attack_accuracy_low=None if high is None else 1 - high,",
        "attack_accuracy_low=None if low is None else 1 - low,",
        "tests/reporting/test_leaderboard.py",
    ),
    Fault(
        "rapt/reporting/leaderboard.py",
        "key=lambda entry: -(entry.accuracy or 0)",
        "key=lambda entry: entry.accuracy or 0",
    ),
    Fault(
        "rapt/reporting/mlflow_mirror.py",
        'return _hash(asdict(self) | {"artifacts": artifacts})',
        "return _hash(asdict(self))",
    ),
    Fault(
        "rapt/reporting/text.py",
        'return f"{eta:.1f}" if eta >= 10 else f"{eta:.3g}"',
        'return f"{eta:.0f}"',
    ),
    # Commands.
    Fault(
        "rapt/commands/plan.py",
        "return max(sum(seconds) / cores(), max(seconds, default=0.0))",
        "return sum(seconds)",
    ),
    Fault(
        "rapt/commands/clean.py",
        "if not kept & {path, *map(str, Path(path).parents)}",
        "if path not in kept",
    ),
    Fault(
        "rapt/commands/calibrate.py",
        "if share is not None and not 0 < share < 1:",
        "if share is not None and not 0 <= share <= 1:",
        "tests/test_cli.py",
    ),
    # Stages and flows.
    Fault("stages/privatize.py", "counts.most *= p.seeds", "counts.most *= 1"),
    Fault(
        "stages/membership.py",
        "members = members.filter(~held_out)",
        "members = members.filter(held_out)",
    ),
    Fault("stages/layers.py", '"spread": spreads(clean)', '"spread": spreads(own)'),
    Fault(
        "stages/gate_private.py",
        'in_set("label", "labels", range(len(labels)), ',
        'in_set("label", "labels", range(len(labels) + 1), ',
        "tests/stages/test_gate_release.py",
    ),
    Fault(
        "rapt/tasks/generate.py",
        'restores = self.protect == "entities" and is_protected',
        'restores = self.protect == "entities"',
        "tests/tasks tests/stages/test_score.py",
    ),
    Fault(
        "stages/attacked.py",
        "range(0, self.params.seeds - step + 1, step)",
        "range(0, self.params.seeds - step, step)",
    ),
    Fault(
        "pipelines/cache.py",
        'if known.get(name) == state or _md5(path) == name.removesuffix(".dir"):',
        "if known.get(name) == state or path.stat().st_size:",
    ),
    Fault("pipelines/graph.py", "if not out.can_push:", "if False:"),
    Fault("pipelines/schedule.py", "stage = max(can_start, key", "stage = min(can_start, key"),
    Fault("pipelines/schedule.py", "left[name] -= now - started", "left[name] -= 0"),
    Fault(
        "pipelines/slots.py",
        '"CUDA_VISIBLE_DEVICES": gpu or "",',
        '"CUDA_VISIBLE_DEVICES": gpu or "0",',
    ),
)


def main(folders: Sequence[str]) -> int:
    """Plant the faults below these folders; return how many go unnoticed."""
    chosen = [f for f in FAULTS if not folders or f.file.startswith(tuple(folders))]
    for fault in chosen:
        if (ROOT / fault.file).read_text().count(fault.right) != 1:
            sys.exit(f"{fault.file}: got no single {fault.right!r}, expected the line to change")
    with tempfile.TemporaryDirectory() as scratch:
        copy = _copied(Path(scratch))
        unnoticed = [fault for fault in chosen if not _is_noticed(copy, fault)]
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} faults are noticed")
    return len(unnoticed)


def _copied(scratch: Path) -> Path:
    """Copy the files of the project that git knows; the shared data stays beside it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    copy = scratch / "project"
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, copy / name)
    if (ROOT.parent / "shared").is_dir():
        (scratch / "shared").symlink_to((ROOT.parent / "shared").resolve())
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    return copy


def _is_noticed(copy: Path, fault: Fault) -> bool:
    path, before = copy / fault.file, (ROOT / fault.file).read_text()
    path.write_text(before.replace(fault.right, fault.wrong))
    start = time.monotonic()
    code = _tested(copy, fault.tests)
    seconds = time.monotonic() - start
    path.write_text(before)
    if code not in (PASSED, FAILED, None):
        sys.exit(
            f"{' '.join(fault.tests)}: got exit code {code} of pytest, expected tests that run"
        )
    said = "NOT noticed" if code == PASSED else "noticed"
    print(f"{said:11} {seconds:4.0f} s  {fault.file}: {fault.wrong.strip()}", flush=True)
    return code != PASSED


def _tested(copy: Path, tests: Sequence[str]) -> int | None:
    """Return the exit code of these tests; None: they hang."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    how: dict[str, Any] = {"cwd": copy, "env": environment, "timeout": SECONDS, "check": False}
    try:
        return subprocess.run(command, capture_output=True, **how).returncode
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
