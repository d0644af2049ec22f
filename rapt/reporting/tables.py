"""Tidy table of attacks, and tables of rows by group; shares are from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

from rapt.attacks.base import Attack, Inversion
from rapt.grid import ATTACKED, CLEAN, is_unprotected, privacy_rank, sorted_etas
from rapt.params import Params
from rapt.reporting import utility_table
from rapt.reporting.rows import Row, mean, once, parts
from rapt.reporting.utility_table import ENDS
from rapt.results.reader import Metric, ReadCell, Results

# Of one attack on one target: protected words, an attribute, entities or membership. For entities
# the accuracy is F1. For membership it is the area under the ROC curve: how often a member scores
# above another text.
PRIVACY = (
    *("kind", "cell", "attack", "task", "target"),
    # What the attacker knows, and what is given to it beyond a release and public knowledge.
    *("attacker_knowledge", "given"),
    # Of the attacked adapter; None: the release is attacked.
    *("backbone", "tuner"),
    *("method", "eta", "embedding", "protection"),
    # With its 95 % confidence interval over texts and seeds.
    *("empirical_privacy", "empirical_privacy_sd"),
    *("empirical_privacy_low", "empirical_privacy_high", "seeds"),
    # For inversions also over all words, those that the method leaves unchanged included; of
    # triples the share of entities whose protected words are all recovered.
    *("attack_accuracy", "attack_accuracy_sd"),
    *("attack_accuracy_all_words", "attack_accuracy_entities"),
    # For inversions: the share of the texts' words that the method sends as they are.
    "unprotected_share",
    # For membership: the true positive rate at 1 % and 0.1 % false positives, of these others.
    *("tpr_at_1", "tpr_at_1_low", "tpr_at_1_high"),
    *("tpr_at_01", "tpr_at_01_low", "tpr_at_01_high", "others"),
    # Broken: it does not beat its baseline beyond chance on clean text, and so measures nothing.
    *("majority", "clean_accuracy", "broken"),
    # Upper bound on the expected accuracy of any attack on single words, if known.
    "accuracy_ceiling",
    # For inversions that guess vectors: the squared error per component, that of always guessing
    # the mean (baseline), and that on clean text.
    *("squared_error", "squared_error_low", "squared_error_high"),
    *("squared_error_baseline", "clean_squared_error", "command"),
)
# What the accuracy of each kind is called where it is shown.
LEARNED = {
    "invert": "recovered",
    "infer": "inferred",
    "recognize": "recognized (F1)",
    "link": "linked",
    "membership": "told from others (AUC)",
}


class Target(NamedTuple):
    """An attack's target, and the names of its accuracy, privacy and baseline in the cell."""

    name: str
    accuracy: str
    privacy: str
    baseline: str


TARGETS = {
    "invert": Target("protected words", "accuracy_protected", "empirical_privacy", "majority"),
    "recognize": Target("entities", "f1", "empirical_privacy", "majority"),
    "link": Target("texts", "linked", "empirical_privacy", "linked"),
    "membership": Target("membership", "auc", "empirical_privacy", "auc"),
}


@once
def privacy(results: Results) -> list[Row]:
    """Return one row for each attack cell and target, such as each inferred attribute.

    An attack on a release counts for every method that privatizes alike (RAPT as PCT2T does).
    Otherwise the method with fewer attacks would seem more private.
    """
    own = [
        _privacy(results, cell, target)
        for kind in ATTACKED
        for cell in results.of(kind)
        for target in _targets(results, cell)
    ]
    found = {(row.group, row.method, row.eta): row for row in own}
    for row, method in product(own, results.params.sweep.methods):
        if row.kind != "membership" and row.method in alike(results.params, method)[1:]:
            shared = row.but(method=method, label=method)
            held = found.setdefault((row.group, method, row.eta), shared)
            if held.empirical_privacy is None and row.empirical_privacy is not None:
                found[row.group, method, row.eta] = shared
    return list(found.values())


def alike(params: Params, method: str) -> list[str]:
    """Return a method and those with the same mechanism and categories."""
    if method == CLEAN:
        return [method]
    methods = params.methods
    own = (methods[method].mechanism, methods[method].categories)
    others = [m for m in methods if m != method]
    return [method, *(m for m in others if (methods[m].mechanism, methods[m].categories) == own)]


def concerns(attack: Row, row: Row) -> bool:
    """Whether an attack concerns a tuned cell of the same method and η."""
    if attack.kind == "membership":
        return (attack.task, attack.backbone, attack.tuner) == row.group and row.denoiser is None
    return bool(attack.kind == "infer" or attack.task == row.task)


def on_words(row: Row, attacks: Iterable[Row]) -> list[Row]:
    """Return the attacks on the words of a row's release."""
    at = ("invert", row.task, row.method, row.eta)
    return [found for found in attacks if (found.kind, found.task, found.method, found.eta) == at]


def on_release(row: Row, attacks: Iterable[Row]) -> list[Row]:
    """Return the attacks on a row's release: those that read its words or find its texts.

    A share of words and a share of texts are both what an attacker gets right. Vectors and new
    texts have the second alone.
    """
    attacks = list(attacks)
    at = ("link", row.task, row.method, row.eta)
    linked = [each for each in attacks if (each.kind, each.task, each.method, each.eta) == at]
    return on_words(row, attacks) + linked


def by_release(attacks: Iterable[Row]) -> list[list[Row]]:
    """Group the attacks on one target of one release."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for attack in attacks:
        found.setdefault((*attack.group[1:], attack.method, attack.eta), []).append(attack)
    return list(found.values())


def counting(attacks: Iterable[Row]) -> list[Row]:
    """Return the attacks that have run and may count as the strongest."""
    return [found for found in attacks if found.counts and found.attack_accuracy is not None]


def strongest(attacks: Iterable[Row]) -> Row | None:
    """Return the attack that gets most right, of several on one release; None: none that counts.

    Where another attack is the strongest on the even texts than on the odd ones, the luckier of
    them would be overstated. Its accuracy is then that of who chooses on the other half.
    """
    own = counting(attacks)
    found = max(own, key=lambda attack: attack.attack_accuracy or 0, default=None)
    if found:  # a share of one target is not averaged with that of another
        own = [attack for attack in own if attack.group[1:] == found.group[1:]]
    each = [attack.texts for attack in own if attack.texts]
    if found is None or len(each) < len(own):
        return found
    even, odd = slice(0, None, 2), slice(1, None, 2)
    of_even, of_odd = (max(each, key=lambda texts: texts.accuracy(half)) for half in (even, odd))
    if of_even is of_odd:
        return found
    accuracy = (of_even.accuracy(odd) + of_odd.accuracy(even)) / 2
    moved = accuracy - (found.attack_accuracy or 0)
    interval = {}
    for name in (f"attack_accuracy_{end}" for end in ENDS):
        end = getattr(found, name)
        interval[name] = None if end is None else min(1.0, max(0.0, end + moved))
    return found.but(attack_accuracy=accuracy, **interval)


def sound(results: Results) -> set[tuple[str, str]]:
    """Return the cells of attacks that are known to work, each with its target's metric."""
    every = [cell for kind in ATTACKED for cell in results.of(kind)]
    return {at for at, doubt in doubts(results, every).items() if doubt is None}


def doubts(results: Results, attacks: Iterable[ReadCell]) -> dict[tuple[str, str], str | None]:
    """Return the doubt about each attack, by cell and its target's metric."""
    return {
        (cell.plan.cell, target.accuracy): _doubt(results, cell, target)
        for cell in attacks
        for target in _targets(results, cell)
    }


def shown(results: Results, cell: ReadCell) -> dict[str, Metric]:
    """Return the metrics of a cell for displays that cannot mark doubtful attacks.

    Those of a broken attack are left out, as its low figures would be falsely reassuring. Its
    metrics on clean text are kept.
    """
    metrics = cell.content.metrics if cell.content else {}
    if cell.plan.kind not in ATTACKED or is_unprotected(cell.factors["eta"]):
        return metrics
    said = doubts(results, [cell])
    broken = {metric for (_, metric), doubt in said.items() if doubt == "broken"}
    if cell.plan.kind != "infer":  # all of its metrics are about one target
        return {} if broken else metrics
    hidden = broken | {name.replace("accuracy", "empirical_privacy", 1) for name in broken}
    return {name: metric for name, metric in metrics.items() if name not in hidden}


def drawn(rows: Sequence[Row]) -> list[Row]:
    """Select the rows that a figure shows: those that have run and are not broken."""
    return [row for row in rows if row.empirical_privacy is not None and not row.broken]


def doubt(rows: Sequence[Row]) -> str | None:
    """Return whether a group's attack is `broken` or `unproven`; None: neither, or not run."""
    return next((row.doubt for row in rows if row.empirical_privacy is not None), None)


def _targets(results: Results, cell: ReadCell) -> list[Target]:
    if cell.plan.kind != "infer":  # a cell that attacks nothing has no target
        return [TARGETS[cell.plan.kind]] if cell.plan.kind in TARGETS else []
    return [
        Target(name, f"accuracy_{name}", f"empirical_privacy_{name}", f"majority_{name}")
        for name in results.params.tasks[cell.factors["task"]].inferred
    ]


def _doubt(results: Results, cell: ReadCell, target: Target) -> str | None:
    """Return `broken` or `unproven`; None: the attack works on clean text."""
    if _by_identity(results, cell):
        return None
    clean = results.on_clean_text(cell)
    accuracy = clean.metric(target.accuracy) if clean else None
    baseline = clean.baseline(target.baseline) if clean else None
    if accuracy is None or accuracy.low is None or baseline is None:
        return "unproven"
    # It has to be beaten beyond chance, as half of the attacks without skill are above it.
    return "broken" if accuracy.low <= baseline else None


def _by_identity(results: Results, cell: ReadCell) -> bool:
    """Whether the attacker knows the channel, which is the identity on clean text."""
    attack = results.params.attacks[cell.factors["attack"]]
    return isinstance(attack, Inversion) and attack.reads_channel


def _privacy(results: Results, cell: ReadCell, target: Target) -> Row:
    kind, accuracy = cell.plan.kind, cell.metric(target.accuracy)
    attack = results.params.attacks[cell.factors["attack"]]
    empirical = cell.metric(target.privacy)
    clean = results.on_clean_text(cell)
    on_clean = mean(clean.metric(target.accuracy)) if clean else None
    doubt = _doubt(results, cell, target)
    membership = kind == "membership"
    row = Row.of(
        PRIVACY,
        kind=kind,
        cell=cell.plan.cell,
        **cell.factors,
        target=target.name,
        attacker_knowledge="; ".join([attack.attacker_knowledge, *_texts_read(attack, cell)]),
        given=attack.given,
        protection=cell.protection,
        **parts("empirical_privacy", empirical, "sd", *ENDS),
        seeds=empirical.n if empirical else None,
        **parts("attack_accuracy", accuracy, "sd"),
        attack_accuracy_all_words=mean(cell.metric("accuracy")) if kind == "invert" else None,
        attack_accuracy_entities=mean(cell.metric("accuracy_entities")),
        unprotected_share=_unprotected(cell) if kind == "invert" else None,
        **parts("tpr_at_1", cell.metric("tpr_at_1") if membership else None, *ENDS),
        **parts("tpr_at_01", cell.metric("tpr_at_01") if membership else None, *ENDS),
        others=cell.content.counts.get("others") if cell.content else None,
        majority=cell.baseline(target.baseline),
        clean_accuracy=1.0 if _by_identity(results, cell) else on_clean,
        broken={"broken": True, "unproven": None, None: False}[doubt],
        accuracy_ceiling=cell.upper_bound(target.accuracy),
        **parts("squared_error", cell.metric("squared_error"), *ENDS),
        squared_error_baseline=cell.baseline("squared_error"),
        clean_squared_error=mean(clean.metric("squared_error")) if clean else None,
        command=cell.plan.command,
    )
    attacked = " · ".join(name for name in (row.task, row.backbone, row.tuner) if name)
    low, high = row.empirical_privacy_low, row.empirical_privacy_high
    return row.but(
        # Fixed while method and η vary.
        group=(row.attack, attacked, target.name),
        # Attacks are on the release, or on the adapter without a denoiser.
        label=row.method,
        unprotected=is_unprotected(row.eta),
        doubt=doubt,
        # Whether it may count as the strongest attack on one release at its η.
        counts=attack.given is None and doubt is None,
        attack_accuracy_low=None if high is None else 1 - high,
        attack_accuracy_high=None if low is None else 1 - low,
        # What it gets right of each text; None: not kept.
        texts=cell.successes.get(target.accuracy),
    )


def _texts_read(attack: Attack, cell: ReadCell) -> Iterator[str]:
    """Say which public text an attacker has read: the task, and how many texts once it has run."""
    counts = cell.content.counts if cell.content else {}
    for task in attack.reads if isinstance(attack, Inversion) else ():
        number = counts.get(f"texts of {task}")
        yield f"{'texts' if number is None else f'{number:,} texts'} of {task}"


def metrics(results: Results) -> dict[str, Any]:
    """Return kind → cell → metric → mean for `dvc metrics`, of the metrics that `shown` keeps.

    Answers that are combined with the local model's have a kind of their own.
    """
    nested: dict[str, Any] = {}
    for cell in results.cells:
        if cell.content:
            means = {name: round(metric.mean, 4) for name, metric in shown(results, cell).items()}
            nested.setdefault(cell.plan.kind, {})[cell.plan.cell] = means
    for row in utility_table.utility(results):
        if row.with_local and row.accuracy is not None:
            found = {"accuracy": round(row.accuracy, 4)}
            nested.setdefault("combined", {})[row.cell] = found
    return nested


def groups(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return the groups of grid rows, within which method and η vary, in order."""
    return list(dict.fromkeys(row.group for row in rows if row.kind != "study"))


@dataclass(frozen=True)
class Grid:
    """A table of one group of cells: a row for each method, a column for each η."""

    group: tuple[str, str, str]
    etas: list[str]
    rows: dict[str, list[Any]]
    # The baseline, shown below the methods; None: none is planned.
    clean: Any

    @property
    def every(self) -> list[Any]:
        """All rows, the baseline last."""
        return [row for row in (*chain(*self.rows.values()), self.clean) if row]

    @property
    def first(self) -> Any:
        """A row that has run if there is one, for facts that hold for the whole group."""
        return next((row for row in self.every if row.seeds), self.every[0])

    def placed(self, method: str) -> list[Any]:
        """Return the row of a method in each column; None: it has no such η, or no such ε."""
        at = {row.eta: row for row in self.rows[method]}
        return [at.get(eta) for eta in self.etas]

    def baseline(self, method: str) -> float | None:
        """Return the score of the most frequent answer; methods protect different words."""
        return next((row.majority for row in self.rows[method] if row.seeds), None)

    @property
    def doubt(self) -> str | None:
        """`broken` or `unproven` if this attack is; None: neither."""
        return doubt(self.every)


def grids(rows: Sequence[Row]) -> list[Grid]:
    """Return the tables of the rows' groups."""
    found = []
    for group in groups(rows):
        of_group = [row for row in rows if row.group == group]
        own = sorted(
            (r for r in of_group if not r.unprotected), key=lambda row: privacy_rank(row.eta)
        )
        names = dict.fromkeys(row.label for row in of_group if not row.unprotected)
        found.append(
            Grid(
                group,
                sorted_etas(list({row.eta for row in own})),
                {label: [row for row in own if row.label == label] for label in names},
                next((row for row in of_group if row.unprotected), None),
            )
        )
    return found


def worth(
    utility: Sequence[Row], privacy: Sequence[Row]
) -> dict[tuple[str, str, str], dict[str, list[tuple[Row, Row | None]]]]:
    """Return, by group and η, the rows set against sending nothing, the most accurate first.

    Beside each stands the strongest attack on its words or texts.
    """
    found: dict[Any, dict[str, list[tuple[Row, Row | None]]]] = {}
    for row in sorted(utility, key=lambda row: (privacy_rank(row.eta), -(row.accuracy or 0))):
        if row.on_grid and row.against_local:
            of_eta = found.setdefault(row.group, {}).setdefault(row.eta, [])
            attack = strongest(own := on_release(row, privacy))
            sent = (each.unprotected_share for each in own if each.unprotected_share is not None)
            of_eta.append((row, attack and attack.but(unprotected_share=next(sent, None))))
    return {group: found[group] for group in groups(utility) if group in found}


def _unprotected(cell: ReadCell) -> float | None:
    counts = cell.content.counts if cell.content else {}
    return 1 - counts["protected"] / counts["words"] if counts.get("words") else None
