"""The report as one page that opens from disk: its script is its own, and it loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import chain, groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from vl_convert import javascript_bundle

from rapt.grid import sorted_etas
from rapt.reporting import tables, text
from rapt.reporting.charts import charts
from rapt.reporting.claims import claims
from rapt.reporting.figures import Figure
from rapt.reporting.narrative import headline, readings
from rapt.reporting.papers import papers
from rapt.reporting.papers.table import as_printed
from rapt.reporting.provenance import origins
from rapt.reporting.published import beside
from rapt.reporting.tables import Privacy, Utility
from rapt.results.reader import Json, Results

# Punctuation that stands at the word before it.
CLOSING = frozenset(".,;:!?)%'’")


@dataclass(frozen=True)
class Grid:
    """One group of cells to be printed: a row for each method, a column for each η."""

    group: tuple[str, str, str]
    etas: list[str]
    rows: dict[str, list[Any]]
    # The baseline, which stands below the methods; None: none is planned.
    clean: Any

    @property
    def first(self) -> Any:
        """A row that has run, else any: for what holds for the whole group."""
        every = [row for row in (*chain(*self.rows.values()), self.clean) if row]
        return next((row for row in every if row.seeds), every[0])

    def floor(self, method: str) -> float | None:
        """What an answer without looking reaches; methods protect different words."""
        return next((row.majority for row in self.rows[method] if row.seeds), None)

    @property
    def doubt(self) -> str | None:
        """Whether this attack is broken, or unproven."""
        return tables.doubt(list(chain(*self.rows.values())))


class Overview:
    """Every attack against every method at every η, those on one target side by side."""

    def __init__(self, rows: Sequence[Privacy]) -> None:
        """Order them."""
        private = [row for row in rows if not row.unprotected]
        self.methods = list(dict.fromkeys(row.method for row in private))
        self.etas = sorted_etas(list({row.eta for row in private}))
        self.groups = sorted(tables.groups(rows), key=lambda group: group[1:])
        self._all = rows
        self._rows = {(row.group, row.method, row.eta): row for row in private}

    @property
    def knowledge(self) -> dict[str, str]:
        """Attack → what its attacker has beside the release, of those with results."""
        ran = [row for row in self._all if row.empirical_privacy is not None]
        return {row.attack: row.knows + (f"; {row.given}" if row.given else "") for row in ran}

    def clean(self, group: tuple[str, str, str]) -> float | None:
        """What an attack leaves of clean text; None: it has not run there."""
        found = next(row.clean_accuracy for row in self._all if row.group == group)
        return None if found is None else 1 - found

    def privacy(self, group: tuple[str, str, str], method: str, eta: str) -> float | None:
        """What an attack leaves of privacy; None: it has not run, or is none of the sweep's."""
        row = self._rows.get((group, method, eta))
        return row.empirical_privacy if row else None

    def strongest(self, group: tuple[str, str, str], method: str, eta: str) -> bool:
        """Whether of the attacks on the same target that count no other leaves less."""
        against = [self._rows.get((g, method, eta)) for g in self.groups if g[1:] == group[1:]]
        counting = [row for row in against if row and row.counts]
        left = [row.empirical_privacy for row in counting if row.empirical_privacy is not None]
        own = self._rows.get((group, method, eta))
        return own in counting and own.empirical_privacy == min(left, default=None)

    def remarks(self, group: tuple[str, str, str]) -> list[str]:
        """Why an attack does not count."""
        rows = [row for row in self._all if row.group == group]
        given = dict.fromkeys(f"with {row.given}" for row in rows if row.given)
        doubt = tables.doubt(rows)
        return [*given, *([doubt] if doubt else [])]


@dataclass(frozen=True)
class Release:
    """How a sentence reads after the methods that agree on it."""

    methods: str
    eta: str
    html: Markup


def render(results: Results, figures: Sequence[Figure]) -> str:
    """The page's HTML."""
    environment = Environment(
        loader=PackageLoader("rapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        count=text.count,
        percent=text.percent,
        points=text.points,
        number=text.number,
        as_printed=as_printed,
        eta_number=text.eta_number,
        group_text=text.group_text,
        attack_text=text.attack_text,
    )
    utility, privacy = tables.utility(results), tables.privacy(results)
    script = _script()
    html = environment.get_template("report.html").render(
        results=results,
        params=results.params,
        headline=headline(results),
        readings=readings(results),
        utility=_grids([row for row in utility if row.on_grid]),
        studies=[row for row in utility if not row.on_grid],
        overview=Overview(privacy),
        privacy=_grids([row for row in privacy if not row.unprotected]),
        differences=tables.differences(results),
        calibration=tables.calibration(results),
        targets=tables.targets(results),
        beside=beside(results),
        channels=tables.channels(results),
        neighbours=tables.neighbours(results),
        categories=tables.categories(results),
        missing=results.missing(),
        figures={
            section: [Drawn(figure) for figure in drawn]
            for section, drawn in groupby(figures, key=lambda figure: figure.section)
        },
        examples=list(_examples(results.examples)),
        params_html=_commented(results.params_text),
        claims=claims(results),
        papers=papers(results),
        origins=origins(results),
        charts=charts(results),
        script=Markup(script),
        script_sha256=b64encode(sha256(script.encode()).digest()).decode(),
    )
    return _tidy(html)


@cache
def _script() -> str:
    """Vega, which draws the charts, and the page's own; the page names its hash, and no other."""
    own = files("rapt.reporting").joinpath("report.js").read_text()
    return _tidy(javascript_bundle("window.vegaEmbed = vegaEmbed;") + "\n" + own)


def _tidy(text: str) -> str:
    """Without the lines and the spaces at their ends that templates leave."""
    lines = (line.rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


class Drawn:
    """A figure for the template."""

    def __init__(self, figure: Figure) -> None:
        """Make the drawing safe to stand in the page: it comes from matplotlib, escaped."""
        self.name, self.caption = figure.name, figure.caption
        self.svg = Markup(figure.inline())


def _grids(rows: Sequence[Utility] | Sequence[Privacy]) -> list[Grid]:
    grids = []
    for group in tables.groups(rows):
        of_group = [row for row in rows if row.group == group]
        own = sorted((r for r in of_group if not r.unprotected), key=lambda row: float(row.eta))
        labels = dict.fromkeys(row.label for row in of_group if not row.unprotected)
        grids.append(
            Grid(
                group,
                sorted_etas(list({row.eta for row in own})),
                {label: [row for row in own if row.label == label] for label in labels},
                next((row for row in of_group if row.unprotected), None),
            )
        )
    return grids


def _examples(content: Json | None) -> Iterator[dict[str, Any]]:
    """Each sentence with its releases by η; methods that agree at one η share a row."""
    for sentence in content["sentences"] if content else []:
        same: dict[tuple[str, tuple[str, ...], tuple[bool, ...]], list[str]] = {}
        for release in sentence["releases"]:
            key = (release["eta"], tuple(release["words"]), tuple(release["changed"]))
            same.setdefault(key, []).append(release["method"])
        yield {
            "text": sentence["text"],
            "source": sentence["source"],
            "releases": sorted(
                (Release(", ".join(m), eta, _marked(w, c)) for (eta, w, c), m in same.items()),
                key=lambda release: float(release.eta),
            ),
        }


def _marked(words: Sequence[str], changed: Sequence[bool]) -> Markup:
    """The words as a sentence, the replaced ones in <mark>."""
    html = Markup("")
    for word, new in zip(words, changed, strict=True):
        space = "" if not html or (word in CLOSING and not new) else " "
        html += Markup("{}<mark>{}</mark>" if new else "{}{}").format(space, word)
    return html


def _commented(yaml: str) -> Markup:
    """params.yaml with its comments set back."""
    lines = (
        Markup("<i>{}</i>").format(line) if line.lstrip().startswith("#") else escape(line)
        for line in yaml.splitlines()
    )
    return Markup("\n").join(lines)
