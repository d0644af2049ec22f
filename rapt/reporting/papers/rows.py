"""Rows of the papers' tables and figures that are no tuned cells beside printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from rapt.grid import CLEAN, order, sorted_etas
from rapt.param_types import level
from rapt.reporting import tables, utility_table, word_tables
from rapt.reporting.papers.published_values import BERT, read, replaced
from rapt.reporting.papers.settings import paper_name
from rapt.reporting.papers.table import PaperRow
from rapt.reporting.tables import Privacy
from rapt.reporting.utility_table import Utility
from rapt.results.reader import Json, Results

METHODS = ("t2t", "pct2t", "rapt", CLEAN)


def _replacement(results: Results) -> Iterator[PaperRow]:
    """RAPT, Table III."""
    params = results.params
    printed = {eta: round(100 * share, 4) for eta, share in replaced(BERT).items()}
    own = {name: paper_name(params, "embedding", name) for name in results.calibrations}
    for name, content in results.calibrations.items():
        curve = content["curves"]["t2t"] if content else []
        shares = {point["eta"]: 100 * point["replaced"] for point in curve}
        for eta in params.calibrate.etas:
            other = eta in printed and own[name] != BERT
            yield PaperRow(
                {"embedding": name, "eta": eta},
                published=printed.get(eta),
                beside=f"{BERT} at the same η" if other else None,
                mean=shares.get(eta),
                command=f"dvc repro calibrate@{name}",
            )
    if BERT not in own.values():
        command = "rapt preset paper-nlu-bert, then dvc repro calibrate"
        for eta, share in printed.items():
            yield PaperRow({"embedding": BERT, "eta": eta}, share, command=command)


def overhead(benchmarks: Json) -> list[PaperRow]:
    """RAPT, Table X; `benchmarks` is empty without measurements."""
    # The measure, its column in the paper, and its name in reports/benchmarks.json.
    measures = (
        ("time, s", "seconds_per_sequence", "time"),
        ("peak memory, MiB", "peak_memory_mb", "peak memory over the interpreter"),
        ("rapt privatize: time, s", None, "time of rapt privatize"),
        ("rapt privatize: memory, MiB", None, "peak memory of rapt privatize"),
    )
    measured = {one["name"].partition(" (")[0]: one["value"] for one in benchmarks.get("edge", ())}
    return [
        PaperRow(
            {"words": f"{int(row['words']):,}", "measure": measure},
            published=float(row[column]) if column else None,
            beside="Raspberry Pi 4" if column else None,
            mean=measured.get(f"{name}, {int(row['words']):,} words"),
            command="make benchmark",
        )
        for row in read("edge_overhead.csv")
        for measure, column, name in measures
    ]


def _attacks(results: Results) -> Iterator[PaperRow]:
    """RAPT, Figure 4, with the Bayesian attacks on one release."""
    for row in tables.privacy(results):
        attack = results.params.attacks[row.attack]
        bayesian = attack.type == "bayesian" and not attack.given
        if row.method in METHODS and (bayesian or "RAPT, figure 4" in attack.source):
            yield _attack_row(row)


def _categories(results: Results) -> list[PaperRow]:
    """RAPT, Figures 6, 8 and 10: of two schemes at least."""
    schemes = {
        name: ", ".join(method.categories)
        for name, method in results.params.methods.items()
        if method.categories and not method.plain_tokens
    }
    found = [row for row in tables.privacy(results) if row.method in schemes]
    if len({schemes[row.method] for row in found}) < 2:
        return []
    shown = [(schemes[row.method], _attack_row(row)) for row in found]
    return [replace(row, factors={"setting": scheme, **row.factors}) for scheme, row in shown]


def _attack_row(row: Privacy) -> PaperRow:
    return PaperRow.of_shares(
        {name: getattr(row, name) for name in ("attack", "task", "target", "method", "eta")},
        row.command,
        *(row.empirical_privacy, row.empirical_privacy_sd, row.seeds),
        remark=row.doubt if row.seeds else None,
    )


def _trade_off(results: Results) -> Iterator[PaperRow]:
    """RAPT, Figure 7."""
    privacy = tables.privacy(results)
    for row in utility_table.utility(results):
        if row.on_grid and not row.with_local:
            factors = {name: getattr(row, name) for name in ("task", "backbone", "tuner")}
            factors |= {"method": row.label, "eta": row.eta}
            measured = factors | {"measure": "accuracy"}
            yield PaperRow.of_shares(
                measured, row.command, row.accuracy, row.accuracy_sd, row.seeds
            )
            yield _strongest({**factors, "measure": "empirical privacy"}, row, privacy)


def _strongest(factors: dict[str, str], row: Utility, privacy: Sequence[Privacy]) -> PaperRow:
    """Return a release's privacy under the strongest inversion, or the command for it."""
    inverted = [
        attack
        for attack in privacy
        if (attack.kind, attack.task, attack.given) == ("invert", row.task, None)
        and (attack.method == row.method or attack.unprotected)
    ]
    own = [attack for attack in inverted if attack.eta == row.eta]
    found = tables.strongest(own)
    lacking = [a for a in inverted if not a.seeds and (a.eta == row.eta or a.unprotected)]
    command = lacking[0].command if lacking else None
    return PaperRow.of_shares(
        factors,
        command if own else "rapt preset attacks, then dvc repro invert",
        1 - (found.attack_accuracy or 0) if found else None,
        remark="broken" if own and not found and not lacking else None,
    )


def _layers(results: Results) -> Iterator[PaperRow]:
    """RAPT, Figure 9."""
    for name, content in results.layers.items():
        command = f"dvc repro layers@{name}"
        if not content:
            yield PaperRow({"task": name}, command=command)
            continue
        for layer in content["layers"]:
            for measure, column in (("from clean", "distance"), ("between texts", "spread")):
                factors = {**content["factors"], "layer": str(layer["layer"]), "measure": measure}
                yield PaperRow(factors, **layer[column], command=command)


def _examples(results: Results) -> Iterator[PaperRow]:
    """Qu et al., Tables 1 and 2."""
    for sentence in results.examples["sentences"] if results.examples else ():
        if sentence["source"].startswith("Qu et al."):
            for release in sorted(sentence["releases"], key=lambda found: order(found["eta"])):
                if release["method"] in ("t2t", "token-representation"):
                    yield PaperRow(
                        {
                            "text": sentence["text"],
                            "method": release["method"],
                            "eta": release["eta"],
                            "released": " ".join(release["words"]),
                        }
                    )


def _deniability(results: Results) -> Iterator[PaperRow]:
    """Qu et al., Figures 3 and 4: N_w and S_w."""
    rows = [row for row in word_tables.channels(results) if row["choice"] == "sampled"]
    found = {(row["embedding"], row["method"], row["eta"]): row for row in rows}
    sweep = results.params.sweep
    for key in product(sweep.embeddings, sweep.channels, sorted_etas(sweep.etas)):
        factors = dict(zip(("embedding", "method", "eta"), key, strict=True))
        for measure, column in (("N_w", "n_w_median"), ("S_w", "s_w_median")):
            yield PaperRow(
                factors | {"measure": measure},
                mean=found[key][column] if key in found else None,
                command=f"dvc repro channel@{'-'.join(key)}",
            )


def _geometry(results: Results) -> Iterator[PaperRow]:
    """Qu et al., Figures 3 and 4: distances, and the noise that they are to be seen against."""
    near, noise = "distance to the k-th nearest word", "mean norm of the noise"
    for embedding, content in results.geometries.items():
        command = f"dvc repro calibrate@{embedding}"
        if not content:
            yield PaperRow({"embedding": embedding}, command=command)
            continue
        measured = [(near, f"k = {found['k']}", found["mean"]) for found in content["neighbours"]]
        for eta in sorted_etas(results.params.sweep.etas):
            if level(eta) is None:
                measured.append((noise, f"η = {eta}", content["dimension"] / float(eta)))
        for measure, at, mean in measured:
            factors = {"embedding": embedding, "measure": measure, "at": at}
            yield PaperRow(factors, mean=mean, command=command)


ROWS: dict[str, Callable[[Results], Iterable[PaperRow]]] = {
    "replacement": _replacement,
    "attacks": _attacks,
    "categories": _categories,
    "trade-off": _trade_off,
    "layers": _layers,
    "examples": _examples,
    "deniability": _deniability,
    "geometry": _geometry,
}
