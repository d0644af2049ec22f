"""Hidden states against those of the model of clean text, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from statistics import fmean

from matplotlib.ticker import MaxNLocator

from rapt.reporting.figures.drawing import Figure, finish, line, panel, slug, spoken
from rapt.reporting.figures.style import MARKERS, MUTED, PALETTE
from rapt.reporting.text import group_text
from rapt.results.reader import Json, Results


def hidden_states(results: Results) -> Iterator[Figure]:
    """One panel of distances for each tuned group, and one of points for each release of it."""
    ran = [content for content in results.layers.values() if content]
    for group, members in groupby(ran, key=_group):
        found = list(members)
        numbers = _numbers(results, found)
        yield _distances(group, found, numbers)
        for content, number in zip(found, numbers, strict=True):
            yield _points(group, content, number)


def _group(content: Json) -> tuple[str, ...]:
    return tuple(content["factors"][name] for name in ("task", "backbone", "tuner"))


def _numbers(results: Results, found: list[Json]) -> list[int]:
    """Each looks as its method in every figure, unless a method stands here at two η."""
    methods = [results.params.sweep.methods.index(c["factors"]["method"]) for c in found]
    return methods if len(set(methods)) == len(methods) else list(range(len(found)))


def _label(content: Json) -> str:
    return f"{content['factors']['method']}, η {content['factors']['eta']}"


def _distances(group: tuple[str, ...], found: list[Json], numbers: list[int]) -> Figure:
    with panel() as (canvas, axes):
        for number, content in zip(numbers, found, strict=True):
            layers = content["layers"]
            line(
                axes,
                number,
                _label(content),
                [layer["layer"] for layer in layers],
                [layer["distance"]["mean"] for layer in layers],
                None,
                [layer["distance"]["sd"] or 0 for layer in layers],
            )
        between = found[0]["layers"]
        axes.plot(
            [layer["layer"] for layer in between],
            [layer["spread"]["mean"] for layer in between],
            color=MUTED,
            linestyle=":",
            label="between texts",
        )
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("Euclidean distance")
        axes.set_title(group_text(group))
        return finish(
            canvas,
            "layers",
            slug(f"layers-{'-'.join(group)}"),
            f"{group_text(group)}: mean distance of a text's hidden state from the clean model's "
            "of the same text, by layer. Dotted: between different texts of the clean model.",
            spoken(
                "Distance by layer",
                {
                    f"{_label(content)}, layer {layer['layer']}": (layer["distance"]["mean"],)
                    for content in found
                    for layer in content["layers"]
                },
                scale=1,
            ),
        )


def _points(group: tuple[str, ...], content: Json, number: int) -> Figure:
    """The last layer, on the two principal axes of the clean states."""
    last = content["points"][-1]
    layer = content["layers"][-1]["layer"]
    with panel() as (canvas, axes):
        for name, colour, marker in (
            ("clean", MUTED, "o"),
            ("own", PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]),
        ):
            x, y = zip(*last[name], strict=True)
            label = "clean" if name == "clean" else _label(content)
            axes.scatter(x, y, s=14, color=colour, marker=marker, alpha=0.7, label=label)
        axes.set_xlabel("first principal axis")
        axes.set_ylabel("second principal axis")
        axes.set_title(f"layer {layer} · {group_text(group)}")
        return finish(
            canvas,
            "layers",
            slug(f"states-{'-'.join(group)}-{_label(content)}"),
            f"{group_text(group)}: the states of {len(last['own'])} texts at layer {layer}, of "
            f"{_label(content)} and of the clean model, on the principal axes of the clean states.",
            spoken(
                "Centres on the two axes",
                {name: tuple(map(fmean, zip(*last[name], strict=True))) for name in last},
                scale=1,
            ),
        )
