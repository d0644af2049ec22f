"""The report as one page that opens from disk, with its script inside: it loads nothing."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from vl_convert import javascript_bundle

from rapt.analysis.written import signature
from rapt.grid import SCORE, privacy_rank, sorted_etas
from rapt.reporting import published, tables, text, utility_table
from rapt.reporting.charts import Figure
from rapt.reporting.claims import MARGIN, claims
from rapt.reporting.comparisons import FALSE_ALARMS, differences, unbeaten
from rapt.reporting.leaderboard import leaderboard
from rapt.reporting.measured import measured, measured_text
from rapt.reporting.narrative import headline
from rapt.reporting.provenance import origins
from rapt.reporting.rows import Row
from rapt.reporting.word_tables import statistics
from rapt.reporting.written import by_task
from rapt.results.reader import Json, Results

# Punctuation without a space before it.
CLOSING = frozenset(".,;:!?)%'’")


class Overview:
    """Every attack against every method at every η, grouped by target."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Order the attacks, methods and η."""
        private = [row for row in rows if not row.unprotected]
        self.methods = list(dict.fromkeys(row.method for row in private))
        self.etas = sorted_etas(list({row.eta for row in private}))
        self.groups = sorted(tables.groups(rows), key=lambda group: group[1:])
        self._all = rows
        self._rows = {(row.group, row.method, row.eta): row for row in private}
        self._unbeaten = {
            (row.group, row.method, row.eta)
            for several in tables.by_release(private)
            for row in unbeaten(several)
        }

    @property
    def knowledge(self) -> dict[str, str]:
        """The attacker's knowledge beside the release, by attack, for attacks with results."""
        ran = [row for row in self._all if row.attack_accuracy is not None]
        return {
            row.attack: row.attacker_knowledge + (f"; {row.given}" if row.given else "")
            for row in ran
        }

    def clean(self, group: tuple[str, str, str]) -> float | None:
        """Return an attack's accuracy on clean text; None: it has not run there."""
        return next(row.clean_accuracy for row in self._all if row.group == group)

    def accuracy(self, group: tuple[str, str, str], method: str, eta: str) -> float | None:
        """Return an attack's accuracy; None: it has not run, or is not in the sweep."""
        row = self._rows.get((group, method, eta))
        return row.attack_accuracy if row else None

    def strongest(self, group: tuple[str, str, str], method: str, eta: str) -> bool:
        """Whether it counts, and no other attack on the same target is surely stronger."""
        return (group, method, eta) in self._unbeaten

    def remarks(self, group: tuple[str, str, str]) -> list[str]:
        """Return the reasons why an attack does not count."""
        rows = [row for row in self._all if row.group == group]
        given = dict.fromkeys(f"with {row.given}" for row in rows if row.given)
        doubt = tables.doubt(rows)
        return [*given, *([doubt] if doubt else [])]


def render(results: Results, figures: Sequence[Figure]) -> str:
    """Render the page's HTML."""
    environment = Environment(
        loader=PackageLoader("rapt.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    formats = (text.attack_text, text.count, text.eta_number, text.eta_text, text.group_text)
    numbers = (text.labels_text, text.number, text.percent, text.points, text.training_text)
    for form in (*formats, *numbers, published.as_printed):
        environment.globals[form.__name__] = form
    utility, privacy = utility_table.utility(results), tables.privacy(results)
    script = _script()
    html = environment.get_template("report.html").render(
        results=results,
        params=results.params,
        headline=headline(results),
        worth=tables.worth(utility, privacy),
        leaderboard={
            group: list(entries)
            for group, entries in groupby(leaderboard(results), key=lambda entry: entry.group)
        },
        utility=tables.grids([row for row in utility if row.on_grid]),
        studies=[row for row in utility if not row.on_grid],
        written=by_task(results),
        measured=measured(results),
        measured_text=measured_text,
        signature=signature() if results.of(SCORE) else "",
        overview=Overview(privacy),
        learned=tables.LEARNED,
        privacy=tables.grids([row for row in privacy if not row.unprotected]),
        differences=differences(results),
        **statistics(results),
        missing=results.missing(),
        figures={
            section: list(drawn)
            for section, drawn in groupby(figures, key=lambda figure: figure.section)
        },
        examples=list(_examples(results.examples)),
        params_html=_commented(results.params_text),
        claims=claims(results),
        margin=MARGIN,
        false_alarms=FALSE_ALARMS,
        papers=list(_papers(results)),
        origins=origins(results),
        terms=terms(),
        script=Markup(script),
        script_sha256=b64encode(sha256(script.encode()).digest()).decode(),
    )
    return _tidy(html)


def _papers(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each table of the papers, with the factors that it has."""
    for source, table, factors, own in published.by_table(results):
        yield {
            "source": f"{published.SOURCES[source]}, Table {table}",
            "metrics": text.listing(list(dict.fromkeys(own["metric"]))),
            "columns": factors,
            "ran": own["mean"].count(),
            "rows": list(own.itertuples()),
        }


@cache
def _script() -> str:
    """Return Vega and the page's own scripts, whose hash is the only one that the page allows."""
    here = files("rapt.reporting")
    own = (here.joinpath(name).read_text() for name in ("report.js", "sortable.js"))
    return _tidy("\n".join([javascript_bundle("window.vegaEmbed = vegaEmbed;"), *own]))


@cache
def terms() -> dict[str, str]:
    """Return each term of docs/glossary.md, which lies beside this module too, and its meaning."""
    page = files("rapt.reporting").joinpath("glossary.md").read_text()
    found: dict[str, str] = {}
    for line in re.findall(r"^\| (.*) \|$", page, re.MULTILINE):
        names, meaning = re.sub(r"`|\[(.+?)\]\(.+?\)", r"\1", line.replace("\\|", "|")).split(" | ")
        found |= dict.fromkeys(re.split(r", | \(", names.removesuffix(")")), meaning)
    del found["term"]
    return found


def _tidy(text: str) -> str:
    """Remove the empty lines and trailing spaces that templates leave."""
    lines = (line.rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


def _examples(content: Json | None) -> Iterator[dict[str, Any]]:
    """Yield each sentence with its releases by η; methods that agree at one η share a row."""
    for sentence in content["sentences"] if content else []:
        same: dict[tuple[str, Markup], list[str]] = {}
        for release in sorted(
            sentence["releases"], key=lambda release: privacy_rank(release["eta"])
        ):
            html = _marked(release["words"], release["changed"])
            same.setdefault((release["eta"], html), []).append(release["method"])
        releases = [
            {"methods": ", ".join(methods), "eta": eta, "html": html}
            for (eta, html), methods in same.items()
        ]
        yield {"text": sentence["text"], "source": sentence["source"], "releases": releases}


def _marked(words: Sequence[str], changed: Sequence[bool]) -> Markup:
    """Join words as a sentence, with the replaced ones in <mark>."""
    html = Markup("")
    for word, new in zip(words, changed, strict=True):
        space = "" if not html or (word in CLOSING and not new) else " "
        html += Markup("{}<mark>{}</mark>" if new else "{}{}").format(space, word)
    return html


def _commented(yaml: str) -> Markup:
    """Format params.yaml with its comments in <i>."""
    lines = (
        Markup("<i>{}</i>").format(line) if line.lstrip().startswith("#") else escape(line)
        for line in yaml.splitlines()
    )
    return Markup("\n").join(lines)
