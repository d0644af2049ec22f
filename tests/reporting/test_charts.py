"""A figure's specification, its files and its place on the page, from a few rows."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from rapt.reporting.charts import DOTTED, PALETTE, SOLID, VARIABLES, Axis, Figure, look

NAMES = [f"a method with a long name, {n}" for n in range(7)]
SVG = "{http://www.w3.org/2000/svg}"


def figure(names: list[str] = NAMES) -> Figure:
    rows = [
        {"series": name, "at": f"η {eta}", "x": x, "y": 50.0 + n, "y_low": 49.0, "y_high": 60.0}
        for n, name in enumerate(names)
        for x, eta in enumerate(("50", "75"))
    ]
    return Figure(
        section="accuracy",
        name="accuracy-a",
        title="task <one>",
        caption="A caption.",
        spoken="Accuracy by η",
        rows=[*rows, {"series": "clean", "y": 90.0, "y_low": 89.0, "y_high": 91.0}],
        looks={name: look(number) for number, name in enumerate(names)} | {"clean": SOLID},
        x=Axis("η", steps=("50", "75")),
        y=Axis("accuracy, %", ".1f"),
    )


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_seven_series_are_told_apart_without_colours_and_with_them() -> None:
    looks = [look(number) for number in range(7)]
    assert len({(own.color, own.dash) for own in looks}) == 7
    assert len({(own.color, own.shape) for own in looks}) == 7
    assert len({own.shape for own in looks[:6]}) == len({own.dash for own in looks[:6]}) == 6


def test_text_stays_text_and_the_legend_names_every_series() -> None:
    drawn = figure()
    found = texts(drawn.svg)
    assert {*NAMES, "clean", "task <one>", "η", "accuracy, %", "50", "75"} <= set(found)
    box = re.search(r'viewBox="0 0 ([\d.]+) ', drawn.svg)
    assert box and float(box[1]) < 500  # the legend has as many columns as fit


def test_png_is_drawn_from_the_svg() -> None:
    assert figure().png.startswith(b"\x89PNG")


@pytest.mark.slow
def test_another_process_gives_equal_bytes() -> None:
    drawn = figure(["t2t"])
    code = (
        "from tests.reporting.test_charts import figure; from hashlib import sha256;"
        "f = figure(['t2t']); print(sha256(f.svg.encode() + f.png).hexdigest())"
    )
    hashes = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(hashes) == 1 and hashes != {""}
    assert drawn.svg == figure(["t2t"]).svg


def test_the_description_has_points_and_levels_and_no_lines_beside_them() -> None:
    drawn = figure(["t2t"])
    assert drawn.description == ("Accuracy by η. t2t, η 50: 50.0; t2t, η 75: 50.0; clean: 90.0.")
    line, silent = {"series": "used", "x": 1}, {"series": "t2t", "x": 1, "y": 3}
    more = replace(drawn, rows=[*drawn.rows, line, silent], looks=drawn.looks | {"used": DOTTED})
    assert more.description == drawn.description
    spoken = replace(drawn, x=Axis("privacy", ".1f", spoken=True))
    assert "t2t, η 75: 1.0 and 50.0; clean: 90.0." in spoken.description


def test_the_page_recolours_and_labels_the_drawing() -> None:
    drawn = figure()
    shown = str(drawn.page_svg)
    root = ElementTree.fromstring(shown)
    assert root.get("role") == "img" and root.get("aria-labelledby") == "accuracy-a-title"
    title = root[0]
    assert title.get("id") == "accuracy-a-title" and title.text == drawn.description
    assert "Liberation" in shown and "Liberation" not in json.dumps(drawn.page_spec)
    for text in (shown, json.dumps(drawn.page_spec)):
        for colour in PALETTE:
            assert text.count(colour) == text.count(f"var(--{VARIABLES[colour]}, {colour})") > 0


def test_what_a_figure_lacks_leaves_no_layer() -> None:
    bare = replace(figure(["t2t"]), rows=[{"series": "t2t", "x": 1, "y": 2}], joined=False)
    (only,) = bare.spec["layer"]
    assert [layer["mark"]["type"] for layer in only["layer"]] == ["point"]
    assert texts(bare.svg).count("t2t") == 1


def test_series_stand_side_by_side_on_equal_steps() -> None:
    (pointed, _) = figure(["a", "b"]).spec["layer"]
    places = [row["x"] for row in pointed["data"]["values"]]
    assert places == pytest.approx([-0.03, 0.97, 0.03, 1.03])


def test_points_that_cover_each_other_stand_side_by_side() -> None:
    """As those of two methods with one release, tuned alike."""
    rows = [{"series": name, "x": 54.4, "y": y} for name, y in (("a", 71.2), ("b", 71.0))]
    shares = replace(figure(["a", "b"]), rows=rows, x=Axis("read", domain=(-4, 104)))
    (pointed,) = shares.spec["layer"]
    assert [row["x"] for row in pointed["data"]["values"]] == [54.4, 56.2]
    apart = replace(shares, rows=[rows[0], rows[1] | {"y": 65.0}])
    assert [row["x"] for row in apart.spec["layer"][0]["data"]["values"]] == [54.4, 54.4]


def test_long_names_of_steps_are_broken_and_none_is_left_out() -> None:
    names = ("noun, verb, pronoun, other", *(f"category {n}" for n in range(12)))
    long = replace(figure(["t2t"]), x=Axis("categories", steps=names))
    shown = {node.text for node in ElementTree.fromstring(long.svg).iter() if node.text}
    assert {"noun, verb, pronoun,", "other", *names[1:]} <= shown
