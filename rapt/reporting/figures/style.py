"""How every figure looks."""

from __future__ import annotations

from typing import Any

# Okabe and Ito: told apart with every kind of colour vision; markers and dashes say it again.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))
INK, MUTED, RULE, PAPER = "#1c2024", "#5f6871", "#d5dade", "#fefefe"
# What the page's style sheet may recolour, for the dark; elsewhere the colour itself stands.
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "surface",
    **{colour: f"series-{number}" for number, colour in enumerate(PALETTE)},
}
STYLE: Any = {  # matplotlib types the keys as literals
    "svg.hashsalt": "rapt",
    # Text stays text: it can be searched, read aloud and recoloured.
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    # Where it is put anyway, without a look at what could be in its way.
    "axes.titley": 1.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
}
# Of a PNG: a panel is some 700 pixels wide.
DPI = 150
METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
