"""The figures of the report, a function for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from rapt.analysis.break_even import learning
from rapt.grid import CLEAN, privacy_rank, sorted_etas
from rapt.reporting import published, tables, utility_table, word_figures
from rapt.reporting.charts import (
    DASHED,
    DOTTED,
    SOLID,
    Axis,
    Figure,
    Look,
    Point,
    at_eta,
    looks_of,
    looks_of_methods,
    rounded,
    slug,
)
from rapt.reporting.rows import Row, parts
from rapt.reporting.text import attack_text, group_text, unproven
from rapt.reporting.utility_table import ENDS
from rapt.results.reader import Json, ReadCell, Results

CLEAN_TEXT, MAJORITY, NOTHING = "clean text (unprotected)", "most frequent class", "nothing learned"
NOTHING_SENT = "nothing sent (local model)"
PRIVATELY = "clean text (trained privately)"
LOCALLY = "a local model with so many labels, nothing sent"
LEVELS = {CLEAN_TEXT: SOLID, PRIVATELY: SOLID, NOTHING_SENT: DASHED}
LEVELS |= {MAJORITY: DOTTED, NOTHING: DOTTED}
ACCURACY = Axis("accuracy, %", ".1f")
# Whole, so that attacks compare.
LEARNED = Axis("", ".1f", domain=(-4, 104))
# With fewer settings there is no curve, and the table beside says it all.
FEWEST_SETTINGS = 3


def figures(results: Results) -> list[Figure]:
    """Return every figure for which there is data."""
    utility, privacy = utility_table.utility(results), tables.privacy(results)
    return [
        *decisions(utility, privacy),
        *break_evens(results, utility),
        *trade_offs(utility, privacy),
        *accuracies(utility),
        *privacies(privacy),
        *receivers(results, privacy),
        *word_figures.calibrations(results),
        *word_figures.deniabilities(results),
        *word_figures.geometries(results),
        *hidden_states(results),
        *trainings(results),
        *settings(results),
    ]


def decisions(utility: Sequence[Row], privacy: Sequence[Row]) -> Iterator[Figure]:
    """Draw accuracy against the words that the strongest attack reads, for each tuned group."""
    looks = looks_of(utility_table.labels(utility))
    for group in tables.groups(utility):
        tuned = [row for row in _accurate(utility, group) if not row.unprotected]
        rows = [
            at_eta(row.label, row.eta, text=row.eta)
            | _share("x", attack.attack_accuracy)
            | _measured("y", row, "accuracy")
            for label in looks
            for row in tuned
            if row.label == label and row.accuracy_low is not None
            if (attack := tables.strongest(tables.on_words(row, privacy)))
        ]
        if rows:
            yield Figure(
                section="worth",
                name="decision-" + "-".join(group),
                title=group_text(group),
                caption=f"{group_text(group)}: accuracy, with 95 % intervals over texts and seeds, "
                "against the words that the strongest attack here reads. A point is one η.",
                spoken="Accuracy against words read",
                rows=[*rows, *_levels(utility_table.clean(utility, group), tuned[0])],
                looks=looks | LEVELS,
                x=Axis("protected words read, %", ".1f", domain=(-4, 104), spoken=True),
                y=ACCURACY,
            )


def break_evens(results: Results, utility: Sequence[Row]) -> Iterator[Figure]:
    """Draw a local model's accuracy over its labels, and the best release of each method beside."""
    for group in tables.groups(utility):
        local = results.local(group[0])
        content = local.content if local else None
        curve = learning(content.metrics, content.counts["train"]) if content else None
        own = [r for r in _accurate(utility, group) if not (r.unprotected or r.with_local)]
        if curve is None or not own:
            continue
        best = {row.label: row for row in sorted(own, key=lambda row: row.accuracy)}
        steps = [f"{labels:g}" for labels in curve.labels]
        rows: list[Point] = [
            {"series": LOCALLY, "at": steps[x], "x": x, **_measured("y", local, "accuracy")}
            for x, local in enumerate(Row(**parts("accuracy", m, *ENDS)) for m in curve.accuracy)
        ]
        rows += [
            {"series": f"{label}, η = {row.eta}", "at": steps[x], "x": x}
            | _share("y", row.accuracy)
            for label, row in best.items()
            for x in range(len(steps))
        ]
        yield Figure(
            section="worth",
            name="labels-" + "-".join(group),
            title=group_text(group),
            caption=f"{group_text(group)}: how many labels of your own a release is worth. Where "
            "the line of a release lies above the local model's, sending it is better.",
            spoken="Accuracy by the number of labels",
            rows=[*rows, *_levels(utility_table.clean(utility, group), own[0])[:1]],
            looks=looks_of(dict.fromkeys(row["series"] for row in rows)) | LEVELS,
            x=Axis("labelled texts of your own", steps=steps),
            y=ACCURACY,
        )


def trade_offs(utility: Sequence[Row], privacy: Sequence[Row]) -> Iterator[Figure]:
    """Draw accuracy against what each attack learns, for each tuned group.

    A denoised cell is attacked as its release is, but not that of the adapter without denoising.
    """
    looks = looks_of(utility_table.labels(utility))
    for group in tables.groups(utility):
        tuned = _accurate(utility, group)
        for attack in tables.groups(privacy):
            every = [row for row in privacy if row.group == attack]
            at = {(row.method, row.eta): row for row in tables.drawn(every)}
            rows = [
                at_eta(u.label, u.eta, text=u.eta)
                | _measured("x", p, "attack_accuracy")
                | _measured("y", u, "accuracy")
                for label in looks
                for u in tuned
                if u.label == label
                and (p := at.get((u.method, u.eta))) is not None
                and tables.concerns(p, u)
            ]
            if not rows:
                continue
            name, task, target = attack
            yield Figure(
                section="trade-off",
                name="pareto-" + "-".join([*group, name, slug(task), slug(target)]),
                title=group_text(group),
                caption=f"{group_text(group)} against {attack_text(*attack)}. Up and to the left "
                "is better; every point is one η, its bars 95 % intervals over texts and seeds."
                f"{unproven(tables.doubt(every))}",
                spoken="Accuracy against what the attack learns",
                rows=[*rows, *_levels(utility_table.clean(utility, group), tuned[0])],
                looks=looks | LEVELS,
                x=replace(
                    LEARNED,
                    title=f"{target} {tables.LEARNED[every[0].kind]}, %\n({name})",
                    spoken=True,
                ),
                y=ACCURACY,
                menu=(group_text(group), attack_text(*attack)),
            )


def accuracies(utility: Sequence[Row]) -> Iterator[Figure]:
    """Draw accuracy over η, for each tuned group."""
    for group in tables.groups(utility):
        own = [row for row in _accurate(utility, group) if not row.unprotected]
        if not own:
            continue
        etas = sorted_etas(list({row.eta for row in own}))
        rows = [
            at_eta(row.label, row.eta, x=etas.index(row.eta)) | _measured("y", row, "accuracy")
            for row in own
        ]
        yield Figure(
            section="accuracy",
            name="accuracy-" + "-".join(group),
            title=group_text(group),
            caption=f"Accuracy by η, {group_text(group)}, with 95 % intervals over texts and "
            "seeds. Dashed: nothing sent. Dotted: the most frequent class.",
            spoken="Accuracy by η",
            rows=[*rows, *_levels(utility_table.clean(utility, group), own[0])],
            looks=looks_of(utility_table.labels(utility)) | LEVELS,
            x=Axis("η", steps=etas),
            y=ACCURACY,
            menu=("", group_text(group)),
        )


def privacies(privacy: Sequence[Row]) -> Iterator[Figure]:
    """Draw over η what each attack learns of its target."""
    methods = list(dict.fromkeys(row.method for row in privacy if not row.unprotected))
    for group in tables.groups(privacy):
        every = [row for row in privacy if row.group == group]
        drawn = tables.drawn(every)
        own = [row for row in drawn if not row.unprotected]
        if not own:
            continue
        etas = sorted_etas(list({row.eta for row in own}))
        rows: list[Point] = [
            at_eta(row.method, row.eta, x=etas.index(row.eta))
            | _measured("y", row, "attack_accuracy")
            for row in sorted(own, key=lambda row: privacy_rank(row.eta))
        ]
        for row in drawn:
            if row.unprotected:
                rows.append({"series": CLEAN_TEXT} | _measured("y", row, "attack_accuracy"))
        # An inversion's baseline differs by method, as the words that they protect do.
        baselines = sorted({row.majority for row in own if row.majority is not None})
        rows += [{"series": NOTHING} | _share("y", baseline) for baseline in baselines]
        yield Figure(
            section="privacy",
            name="privacy-" + "-".join(map(slug, group)),
            title=attack_text(*group),
            caption=f"What the attack learns by η, {attack_text(*group)}, with 95 % intervals over "
            "texts and seeds. Dotted: the baseline, an attack that always answers the most "
            f"frequent class.{unproven(tables.doubt(every))}",
            spoken="What the attack learns by η",
            rows=rows,
            looks=looks_of(methods) | LEVELS,
            x=Axis("η", steps=etas),
            y=replace(LEARNED, title=f"{group[2]} {tables.LEARNED[every[0].kind]}, %"),
            menu=(group[1], attack_text(*group)),
        )


def receivers(results: Results, privacy: Sequence[Row]) -> Iterator[Figure]:
    """Draw the ROC curves of each attack on membership at each η, with logarithmic axes."""
    curves = {cell.plan.cell: cell.curves() for cell in results.of("membership") if cell.content}
    looks = looks_of_methods(results, results.params.sweep.methods) | LEVELS
    for group in tables.groups(privacy):
        every = [row for row in privacy if row.group == group]
        own = [row for row in tables.drawn(every) if curves.get(row.cell)]
        for eta in sorted_etas(list({row.eta for row in own if not row.unprotected})):
            rows: list[Point] = [{"series": NOTHING, "x": end, "y": end} for end in (0.1, 100)]
            for row in (row for row in own if row.eta == eta or row.unprotected):
                wrong, right = (
                    [fmean(rates) for rates in zip(*curves[row.cell][name], strict=True)]
                    for name in ("false_positive_rate", "true_positive_rate")
                )
                rows += [
                    {
                        "series": CLEAN_TEXT if row.unprotected else row.method,
                        "x": rounded(100 * x),
                        "y": rounded(100 * y),
                        **({"at": f"at {100 * x:.3g} %"} if round(x, 6) in (0.001, 0.01) else {}),
                    }
                    for x, y in zip(wrong, right, strict=True)
                    if y
                ]
            yield Figure(
                section="privacy",
                name="roc-" + "-".join(map(slug, (*group, eta))),
                title=f"{attack_text(*group)}, η {eta}",
                caption=f"ROC curve at η {eta}, {attack_text(*group)}: members found for each "
                "share of others taken for members, mean over seeds. No point: no member found."
                f"{unproven(tables.doubt(every))}",
                spoken="Members found, by false positive rate",
                rows=rows,
                looks=looks,
                x=Axis("false positive rate, %", log=True),
                y=Axis("true positive rate, %", log=True),
                menu=(group[1], f"{attack_text(*group)}, ROC at η {eta}"),
            )


def hidden_states(results: Results) -> Iterator[Figure]:
    """Draw the distances of hidden states from the clean model's, and the states themselves."""
    ran = [content for content in results.layers.values() if content]
    factors = itemgetter("task", "backbone", "tuner")
    for group, members in groupby(ran, key=lambda content: factors(content["factors"])):
        found = {"{method}, η {eta}".format(**m["factors"]): m for m in members}
        methods = [content["factors"]["method"] for content in found.values()]
        # Each looks as its method in every figure, unless a method stands here at two η.
        if len(set(methods)) == len(methods):
            known = looks_of_methods(results, methods)
            looks = {name: known[own] for name, own in zip(found, methods, strict=True)}
        else:
            looks = looks_of(found)
        yield _distances(group, found, looks)
        for release, content in found.items():
            yield _states(group, release, content, looks[release])


def _distances(
    group: tuple[str, ...], found: Mapping[str, Json], looks: Mapping[str, Look]
) -> Figure:
    between, first = "between texts", next(iter(found.values()))
    rows: list[Point] = [
        {"series": release, "at": f"layer {layer['layer']}", "x": layer["layer"]}
        | _spread("y", layer["distance"]["mean"], layer["distance"]["sd"])
        for release, content in found.items()
        for layer in content["layers"]
    ]
    rows += [
        {"series": between, "x": layer["layer"], **_spread("y", layer["spread"]["mean"])}
        for layer in first["layers"]
    ]
    return Figure(
        section="layers",
        name=slug(f"layers-{'-'.join(group)}"),
        title=group_text(group),
        caption=f"{group_text(group)}: mean distance of a text's hidden state from the clean "
        "model's of the same text, by layer. Dotted: between different texts of the clean model.",
        spoken="Distance by layer",
        rows=rows,
        looks={**looks, between: DOTTED},
        x=Axis("layer", integer=True),
        y=Axis("Euclidean distance"),
    )


def _states(group: tuple[str, ...], release: str, content: Json, own: Look) -> Figure:
    """The last layer, on the two principal axes of the clean states."""
    last, layer = content["points"][-1], content["layers"][-1]["layer"]
    names = {"clean": "clean", "own": release}
    centres = {key: tuple(map(fmean, zip(*last[key], strict=True))) for key in names}
    spoken = "; ".join(f"{names[key]}: {x:.3g} and {y:.3g}" for key, (x, y) in centres.items())
    return Figure(
        section="layers",
        name=slug(f"states-{'-'.join(group)}-{release}"),
        title=f"layer {layer} · {group_text(group)}",
        caption=f"{group_text(group)}: the states of {len(last['own'])} texts at layer {layer}, of "
        f"{release} and of the clean model, on the principal axes of the clean states.",
        spoken=f"Centres on the two axes: {spoken}",
        rows=[
            {"series": name, "x": rounded(x), "y": rounded(y)}
            for key, name in names.items()
            for x, y in last[key]
        ],
        looks={"clean": Look(SOLID.color, SOLID.dash, "circle"), release: own},
        x=Axis("first principal axis"),
        y=Axis("second principal axis"),
        joined=False,
    )


def trainings(results: Results) -> Iterator[Figure]:
    """Draw each curve of the training of each method or study: a line for each η and seed."""
    trained: dict[str, list[ReadCell]] = {}
    utility = utility_table.utility(results)
    for group in tables.groups(utility):
        factors = dict(zip(("task", "backbone", "tuner"), group, strict=True))
        cells = [cell for kind in ("train", "denoise") for cell in results.of(kind, **factors)]
        cells.sort(key=lambda cell: privacy_rank(cell.factors["eta"]))
        for label in [*utility_table.labels(utility), CLEAN]:
            trained[" · ".join([*group, label])] = [c for c in cells if c.label == label]
    trained |= {f"study · {cell.plan.cell}": [cell] for cell in results.of("study")}
    for title, cells in trained.items():
        names = {name for cell in cells for name in cell.curves()}
        # The loss that decides stands first.
        for name in sorted(names, key=lambda n: (n != "task_loss", "loss" not in n, n)):
            yield _training(title, name, cells)


def _training(title: str, name: str, cells: Sequence[ReadCell]) -> Figure:
    rows: list[Point] = []
    for cell in cells:
        series = CLEAN if cell.factors["method"] == CLEAN else f"η {cell.factors['eta']}"
        for seed, values in enumerate(cell.curves().get(name, [])):
            own: list[dict[str, Any]] = [
                {"series": series, "line": seed, "x": epoch, "y": rounded(value)}
                for epoch, value in enumerate(values, start=1)
            ]
            own[-1]["at"] = f"seed {seed}"  # the description has the last epoch alone
            rows += own
    curve = name.replace("_", " ")
    return Figure(
        section="training",
        name=slug(f"training-{title}-{name}"),
        title=title.split(" · ")[-1],
        caption=f"{title}: {curve}, one line a seed.",
        spoken=f"{curve} after the last epoch",
        rows=rows,
        looks=looks_of(dict.fromkeys(row["series"] for row in rows)),
        x=Axis("epoch", integer=True),
        y=Axis(curve),
        small=True,
    )


class Measured(NamedTuple):
    """The mean of a cell in a study: of its accuracy, or of an attack's empirical privacy."""

    group: tuple[str, ...]
    eta: str
    setting: str
    mean: float
    sd: float | None
    doubt: str | None = None


def settings(results: Results) -> Iterator[Figure]:
    """Draw RAPT's figures over its numbers of plain tokens, and over the categories replaced."""
    lengths = [
        Measured(row.group, row.eta, length, row.accuracy, row.accuracy_sd)
        for row in utility_table.utility(results)
        if row.accuracy is not None
        and row.tuner in results.params.tuners
        and not (row.unprotected or row.denoiser or row.with_local)
        and (length := published.setting("plain-length", results.params, vars(row)))
    ]
    yield from _over_settings("plain tokens", "accuracy, %", "Figure 5", lengths)
    categories = [
        Measured(
            (row.attack, row.task, row.target),
            row.eta,
            ", ".join(method.categories),
            row.empirical_privacy or 0.0,
            row.empirical_privacy_sd,
            row.doubt,
        )
        for row in tables.drawn(tables.privacy(results))
        if (method := results.params.method(row.method)).categories and not method.plain_tokens
    ]
    # Categories have no order that a line could follow.
    unit = "empirical privacy, %"
    yield from _over_settings("categories replaced", unit, "Figures 6, 8 and 10", categories, False)


def _over_settings(
    varied: str, unit: str, place: str, ran: Sequence[Measured], joined: bool = True
) -> Iterator[Figure]:
    for group in dict.fromkeys(row.group for row in ran):
        own = [row for row in ran if row.group == group]
        # Numbers are sorted; categories stay as they are listed.
        found = dict.fromkeys(row.setting for row in own)
        names = sorted(found, key=lambda name: int(name) if name.isdigit() else 0)
        if len(names) < FEWEST_SETTINGS:
            continue
        yield Figure(
            section="papers",
            name=slug(f"rapt-{place}-{'-'.join(group)}"),
            title=group_text(group),
            caption=f"As {published.SOURCES['rapt-v3']}, {place}: {unit}, by {varied}, "
            f"{group_text(group)}.{unproven(own[0].doubt)}",
            spoken=f"{unit}, by {varied}",
            rows=[
                {"series": f"η {row.eta}", "at": row.setting, "x": names.index(row.setting)}
                | _spread("y", 100 * row.mean, None if row.sd is None else 100 * row.sd)
                for row in sorted(own, key=lambda row: names.index(row.setting))
            ],
            looks=looks_of(f"η {eta}" for eta in sorted_etas(list({row.eta for row in own}))),
            x=Axis(varied, steps=names),
            y=Axis(unit),
            joined=joined,
        )


def _accurate(utility: Sequence[Row], group: Sequence[str]) -> list[Row]:
    """Return the cells of a group on the grid that have run, by η."""
    own = [r for r in utility if r.on_grid and r.group == group and r.accuracy is not None]
    return sorted(own, key=lambda row: privacy_rank(row.eta))


def _levels(clean: Row | None, row: Row) -> list[Point]:
    """Return the accuracy on clean text, without sending any, and of the baseline, if known."""
    levels: list[Point] = []
    if clean is not None:
        series = CLEAN_TEXT if clean.training_epsilon is None else PRIVATELY
        levels.append({"series": series, **_measured("y", clean, "accuracy")})
    if row.local is not None:
        levels.append({"series": NOTHING_SENT, **_measured("y", row, "local")})
    if row.majority is not None:
        levels.append({"series": MAJORITY, **_share("y", row.majority)})
    return levels


def _measured(field: str, row: Row, column: str) -> dict[str, float]:
    """Return a column that has run, in percent, with its 95 % interval if that is known."""
    ends = {f"{field}_{end}": getattr(row, f"{column}_{end}") for end in ENDS}
    known = {name: rounded(100 * share) for name, share in ends.items() if share is not None}
    return _share(field, getattr(row, column)) | known


def _share(field: str, mean: float | None) -> dict[str, float]:
    """Return a mean that has run, in percent."""
    return _spread(field, 100 * (mean or 0.0))


def _spread(field: str, mean: float, sd: float | None = None) -> dict[str, float]:
    values = {field: mean}
    if sd is not None:
        values |= {f"{field}_low": mean - sd, f"{field}_high": mean + sd, f"{field}_sd": sd}
    return {name: rounded(value) for name, value in values.items()}
